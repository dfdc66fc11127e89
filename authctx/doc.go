// Package authctx says who calls: it verifies JWT bearer tokens and carries the [Principal] in the request's context.
//
// An app without JWT middleware uses a [Verifier], which checks signature, algorithm, issuer, audience and times with
// golang-jwt. An app that has such a middleware keeps it and takes the principal out of the verified token with
// [Claims]. Both refuse what they are not sure of: every failure is [ErrUnauthenticated].
//
// The package knows no web framework; the guards of ginidem and echoidem are built on it.
package authctx
