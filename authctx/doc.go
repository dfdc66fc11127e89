// Package authctx verifies JWT bearer tokens, and carries the caller, a [Principal], in the request's context.
//
// An app without JWT middleware uses a [Verifier]. It checks signature, algorithm, issuer, audience and times with
// golang-jwt. An app with such a middleware keeps it, and reads the principal from the verified token with [Claims]. An
// app that knows its users by an id uses [User]. All three refuse everything that is in doubt: every failure is
// [ErrUnauthenticated]. docs/auth.md of this module shows the common middlewares.
//
// The package imports no web framework. The guards of all adapters use it.
//
// Rule ids in comments, such as O-7, are listed with their tests in docs/contributors/invariants.md of this module.
package authctx
