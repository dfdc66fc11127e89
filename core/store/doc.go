// Package store is the door for whoever writes a store: what a store has to do, and the words for it. It knows nothing of
// requests, and does not import package core, which decides everything that is not said here.
//
// A store has to be a [Store]: it keeps records and claims. It may also be able to do more: run a handler's rows in the
// claim's transaction ([Transactor]), run Resume attempts ([Stepper]), let operators look through its operations
// ([Inspectable]), and others. Core refuses a policy that needs more than its store can do.
//
// Read in this order: record.go has what is kept; window.go what the clock may show; store.go what a store does;
// segments.go how Resume attempts commit; inspectable.go and referrer.go what operators and people look for; keptage.go
// the ages of timed keys. memstore is the shortest store, and storetest.Run checks one against everything that is said
// here. Comments name rules of the contract, such as X-3: docs/contributors/invariants.md has them.
package store
