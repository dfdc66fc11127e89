// Package interop tries clients that nobody here wrote on routes of this library. It is a module of its own, so that
// what these clients require stays out of the library's go.mod. Everything is in its tests.
package interop
