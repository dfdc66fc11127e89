// Package storetest is the contract of a [store.Store] as a test suite. Every store of this library passes it, and so
// should yours:
//
//	func TestStore(t *testing.T) {
//		newStore := func(t *testing.T) storetest.Subject { ... }
//		features := storetest.Features{Shared: true, Attempts: true}
//		storetest.Run(t, newStore, features)
//		storetest.Stress(t, newStore, features)
//	}
//
// [Run] checks the rules one by one. [Stress] looks for faults that need many goroutines at once. Both ask for a new, empty
// store per test, never sleep, and move time only by [Subject].Advance.
package storetest

import (
	"context"
	"crypto/rand"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

// Subject is a store under test. It is empty, nothing else uses it, and the test sets its clock.
type Subject struct {
	Store store.Operations

	// Advance lets d pass for the store without sleeping. If the store takes a clock, give it one that can be moved (see
	// [Clock]). If it uses the clock of a database, move all timestamps of all its records d into the past instead. The
	// suite never calls Advance during another call, nor in a transaction unless it moves the clock.
	Advance func(t *testing.T, d time.Duration)

	// Twin opens a second instance over the same data, as another process would. Required if Features.Shared is set.
	Twin func(t *testing.T) store.Operations

	// Effect writes one business row through the transaction that ctx carries (see store.Attempt), and Effects counts the
	// committed rows. Both are required if Features.Rows is set.
	Effect  func(ctx context.Context) error
	Effects func(t *testing.T) int
}

// Features says what a store can do in addition to what every store must do.
type Features struct {
	Attempts bool // it is a store.Attempts
	Rows     bool // and its Rows is true
	Shared   bool // several instances may work on the same data at once
	Watch    bool // it is a store.CommandLog
	Settings bool // it is a store.Settings
	Proposed bool // it is a store.Proposals

	// Unlocked: no lock is shared by all who may run an attempt that has not committed. Others do not see it, two run beside
	// each other, and one of them commits (M-6).
	Unlocked bool
	// Nodes: Unlocked, but each instance is on a node of its own, and attempts on one node share a lock.
	Nodes bool
}

// Run runs the tests of the contract that apply to a store with features f, each as a subtest of t. newStore is called
// once for each test, and registers its own clean-up.
func Run(t *testing.T, newStore func(t *testing.T) Subject, f Features) {
	t.Helper()
	for _, suite := range []struct {
		checks  []check
		applies bool
	}{
		{claimChecks, true}, {takeoverChecks, true}, {releaseChecks, true}, {attemptChecks, true}, {retentionChecks, true},
		{settleChecks, true}, {listChecks, true}, {cancelChecks, true}, {windowChecks, true},
		{txChecks, f.Rows}, {stepChecks, f.Attempts}, {segmentChecks, f.Attempts}, {commandLogChecks, f.Watch},
		{countChecks, true}, {openChecks, true}, {inspectChecks, true}, {referenceChecks, true}, {importChecks, true},
		{noteChecks, true}, {proposalChecks, f.Proposed}, {txProposalChecks, f.Proposed && f.Rows},
		{markChecks, true},
		{eraseChecks, true},
		{scopingChecks, f.Settings}, {keyTimeChecks, f.Settings},
	} {
		if !suite.applies {
			continue
		}
		for _, c := range suite.checks {
			t.Run(c.name, func(t *testing.T) { c.run(t, newFixture(t, newStore, f)) })
		}
	}
}

// check is one test of the suite.
type check struct {
	name string
	run  func(t *testing.T, s *fixture)
}

// patience limits a whole test, so that the test fails if the store hangs.
const patience = time.Minute

func newFixture(t *testing.T, newStore func(t *testing.T) Subject, f Features) *fixture {
	t.Helper()
	s := &fixture{Subject: newStore(t), run: rand.Text()}
	require.NotNil(t, s.Store, "Subject.Store is missing")
	require.NotNil(t, s.Advance, "Subject.Advance is missing")
	s.instances = []store.Operations{s.Store}
	if f.Shared {
		require.NotNil(t, s.Twin, "Subject.Twin is missing: Features.Shared needs it")
		s.instances = append(s.instances, s.Twin(t))
	}
	if f.Rows {
		require.NotNil(t, s.Effect, "Subject.Effect is missing: Features.Rows needs it")
		require.NotNil(t, s.Effects, "Subject.Effects is missing: Features.Rows needs it")
	}
	s.attempts = abilities[store.Attempts](t, s, "Attempts", f.Attempts)
	s.rows, s.unlocked, s.nodes = f.Rows, f.Unlocked || f.Nodes, f.Nodes
	for _, able := range s.attempts {
		require.Equal(t, f.Rows, able.Rows(), "Features.Rows says what Rows of %T is", able)
	}
	s.watchers = abilities[store.CommandLog](t, s, "Watch", f.Watch)
	abilities[store.Settings](t, s, "Settings", f.Settings)
	s.proposals = abilities[store.Proposals](t, s, "Proposed", f.Proposed)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s.ctx = ctx
	return s
}

// abilities returns the instances as T. It requires that they are T if and only if the feature is set.
func abilities[T store.Store](t *testing.T, s *fixture, feature string, set bool) (all []T) {
	t.Helper()
	for _, store := range s.instances {
		able, ok := store.(T)
		require.Equal(t, set, ok, "Features.%s says whether %T is a %v", feature, store, reflect.TypeFor[T]())
		if ok {
			all = append(all, able)
		}
	}
	return all
}
