// Package interop tries clients that nobody here wrote on routes of this library, and package servers does so with
// frameworks. It is a module of its own, so that what they require stays out of the library's go.mod. Everything is in its
// tests.
package interop
