// Package store is the door for whoever writes a store: what a store has to do, and the words for it. It knows nothing of
// requests, and does not import package core, which decides everything that is not said here.
//
// A store has to be two things:
//
//   - [Store] keeps records and claims: Park.
//   - [Operations] are listed and settled, looked through, counted, imported and erased: operators, metrics, MaxOpen.
//
// It may be able to do more, and core refuses a policy that needs more than its store can do:
//
//   - [Attempts] run in segments, which are transactions of the app's database: Resume; with Rows also Rollback.
//   - [Settings] are kept for all instances: the Scoping, timed keys.
//   - [CommandLog] are commands that have arrived: shadow, the re-key report.
//   - [Proposals] are settlements that two carry out: TwoToSettle.
//
// Read in this order: record.go, window.go, store.go; then attempts.go, steps.go and derivedkey.go, operations.go,
// settings.go, commandlog.go, notes.go. memstore is the shortest store, and storetest.Run checks one against everything
// that is said here. Comments name rules of the contract, such as X-3: docs/contributors/invariants.md has them.
package store
