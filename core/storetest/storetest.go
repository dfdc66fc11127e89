// Package storetest is the contract of a [core.Store] as a test suite. Every store of this library passes it, and so
// should yours:
//
//	func TestStore(t *testing.T) {
//		newStore := func(t *testing.T) storetest.Subject { ... }
//		features := storetest.Features{Shared: true, Steps: true}
//		storetest.Run(t, newStore, features)
//		storetest.Stress(t, newStore, features)
//	}
//
// [Run] goes through the rules one by one. [Stress] looks for faults that need many goroutines at once. Both ask for a
// new, empty store per test, never sleep, and leave the passing of time to [Subject].Advance.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// Subject is a store under test. It is empty, nothing else uses it, and the test sets its clock.
type Subject struct {
	Store core.Store

	// Advance lets d pass for the store without sleeping. A store that takes a clock gets one that can be moved (see
	// [Clock]); where the clock is a database's, all timestamps of all its records move d into the past instead. It is
	// never called while another call or a transaction is under way.
	Advance func(t *testing.T, d time.Duration)

	// Twin opens a second instance over the same data, as another process would. Needed where Features.Shared.
	Twin func(t *testing.T) core.Store

	// Effect writes one business row through the transaction that ctx carries (see core.Tx), and Effects counts the
	// committed ones. Both are needed where Features.Rollback.
	Effect  func(ctx context.Context) error
	Effects func(t *testing.T) int
}

// Features says what a store can do besides what every store must.
type Features struct {
	Rollback bool // it is a core.Transactor
	Steps    bool // it is a core.Stepper
	Shared   bool // several instances may work on the same data at once
	Watch    bool // it is a core.Watcher
	Import   bool // it is a core.Importer
	Count    bool // it is a core.Counter
	Survey   bool // it is a core.Surveyor
	Scoping  bool // it is a core.ScopeKeeper
	KeyTime  bool // it is a core.KeyTimer
	Erase    bool // it is a core.Eraser
	Inspect  bool // it is a core.Inspectable
}

// Run runs every test of the contract that applies to a store with features f as a subtest of t. newStore is called
// once for each; it registers its own clean-up.
func Run(t *testing.T, newStore func(t *testing.T) Subject, f Features) {
	t.Helper()
	suites := [][]check{claimChecks, takeoverChecks, releaseChecks, attemptChecks, retentionChecks, settleChecks,
		listChecks, cancelChecks, windowChecks}
	if f.Rollback {
		suites = append(suites, txChecks)
	}
	if f.Steps {
		suites = append(suites, stepChecks)
	}
	if f.Watch {
		suites = append(suites, sightingChecks)
	}
	if f.Import {
		suites = append(suites, importChecks)
	}
	if f.Count {
		suites = append(suites, openChecks)
	}
	if f.Survey {
		suites = append(suites, surveyChecks)
	}
	if f.Scoping {
		suites = append(suites, scopingChecks)
	}
	if f.KeyTime {
		suites = append(suites, keyTimeChecks)
	}
	if f.Erase {
		suites = append(suites, eraseChecks)
	}
	if f.Inspect {
		suites = append(suites, inspectChecks)
	}
	for _, suite := range suites {
		for _, c := range suite {
			t.Run(c.name, func(t *testing.T) { c.run(t, newFixture(t, newStore, f)) })
		}
	}
}

// check is one test of the suite.
type check struct {
	name string
	run  func(t *testing.T, s *fixture)
}

// patience bounds a whole test: a store that hangs makes it fail, instead of hanging with it.
const patience = time.Minute

func newFixture(t *testing.T, newStore func(t *testing.T) Subject, f Features) *fixture {
	t.Helper()
	s := &fixture{Subject: newStore(t)}
	require.NotNil(t, s.Store, "Subject.Store is missing")
	require.NotNil(t, s.Advance, "Subject.Advance is missing")
	s.instances = []core.Store{s.Store}
	if f.Shared {
		require.NotNil(t, s.Twin, "Subject.Twin is missing: Features.Shared needs it")
		s.instances = append(s.instances, s.Twin(t))
	}
	for _, store := range s.instances {
		tx, ok := store.(core.Transactor)
		require.Equal(t, f.Rollback, ok, "Features.Rollback says whether %T is a core.Transactor", store)
		if f.Rollback {
			require.NotNil(t, s.Effect, "Subject.Effect is missing: Features.Rollback needs it")
			require.NotNil(t, s.Effects, "Subject.Effects is missing: Features.Rollback needs it")
			s.transactors = append(s.transactors, tx)
		}
		stepper, ok := store.(core.Stepper)
		require.Equal(t, f.Steps, ok, "Features.Steps says whether %T is a core.Stepper", store)
		if f.Steps {
			s.steppers = append(s.steppers, stepper)
		}
		watcher, ok := store.(core.Watcher)
		require.Equal(t, f.Watch, ok, "Features.Watch says whether %T is a core.Watcher", store)
		if f.Watch {
			s.watchers = append(s.watchers, watcher)
		}
		counter, ok := store.(core.Counter)
		require.Equal(t, f.Count, ok, "Features.Count says whether %T is a core.Counter", store)
		if f.Count {
			s.counters = append(s.counters, counter)
		}
		surveyor, ok := store.(core.Surveyor)
		require.Equal(t, f.Survey, ok, "Features.Survey says whether %T is a core.Surveyor", store)
		if f.Survey {
			s.surveyors = append(s.surveyors, surveyor)
		}
		inspectable, ok := store.(core.Inspectable)
		require.Equal(t, f.Inspect, ok, "Features.Inspect says whether %T is a core.Inspectable", store)
		if f.Inspect {
			s.inspectables = append(s.inspectables, inspectable)
		}
		_, ok = store.(core.ScopeKeeper)
		require.Equal(t, f.Scoping, ok, "Features.Scoping says whether %T is a core.ScopeKeeper", store)
		_, ok = store.(core.KeyTimer)
		require.Equal(t, f.KeyTime, ok, "Features.KeyTime says whether %T is a core.KeyTimer", store)
		_, ok = store.(core.Eraser)
		require.Equal(t, f.Erase, ok, "Features.Erase says whether %T is a core.Eraser", store)
		_, ok = store.(core.Importer)
		require.Equal(t, f.Import, ok, "Features.Import says whether %T is a core.Importer", store)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s.ctx = ctx
	return s
}
