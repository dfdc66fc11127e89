package storetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

var openChecks = []check{
	{"Open/States", openStates},
	{"Open/Limit", openLimit},
	{"Open/Imported", openImported},
	{"Open/Apart", openApart},
	{"Open/ManyAtOnce", openManyAtOnce},
	{"Open/Cancelled", openCancelled},
}

// requireOpen checks how many open records the principal of s.command has, on every instance.
func (s *fixture) requireOpen(t *testing.T, want int) {
	t.Helper()
	for _, counter := range s.instances {
		got, err := counter.CountOpen(s.ctx, s.command(store.Park).Scope, 1000)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// A record is open from its claim until it is completed, freed or settled, whatever its lease says; but it is not open
// while it is half-done.
//
// CONTRACT T-4, X-10
func openStates(t *testing.T, s *fixture) {
	s.requireOpen(t, 0)
	answered, released, resumed := s.command(store.Park), s.command(store.Park), s.command(store.Resume)
	first := s.win(t, answered)
	s.requireOpen(t, 1)
	s.complete(t, first, "paid")
	s.complete(t, first, "again")
	s.requireOpen(t, 0)

	require.NoError(t, s.Store.End(s.ctx, s.win(t, released).Ticket, asFree))
	s.requireOpen(t, 0)
	again := s.win(t, repeat(released)) // the key is free, and taken again
	s.requireOpen(t, 1)
	require.NoError(t, s.Store.End(s.ctx, again.Ticket, asUnknown))
	s.requireOpen(t, 1)
	s.complete(t, again, "late")
	s.requireOpen(t, 0)

	s.win(t, resumed)
	_, lost := s.lost(t, store.Park)
	s.requireOpen(t, 1) // the other is half-done by now: nobody is at it
	_, err := s.Store.Settle(s.ctx, notApplied(lost))
	require.NoError(t, err)
	s.requireOpen(t, 0)
	taken := s.win(t, repeat(resumed)) // the same operation
	s.requireOpen(t, 1)
	s.complete(t, taken, "refunded")
	s.requireOpen(t, 0)

	half := s.command(store.Resume)
	s.win(t, half)
	s.Advance(t, 2*lease)
	s.requireOpen(t, 1)
	s.Advance(t, deadline)
	s.requireOpen(t, 0)
	parked := s.win(t, repeat(half))
	s.requireOpen(t, 1)
	require.NoError(t, s.Store.End(s.ctx, parked.Ticket, asUnknown))
	s.Advance(t, 2*deadline)
	s.requireOpen(t, 1)
	_, err = s.Store.Settle(s.ctx, applied(parked, "refunded"))
	require.NoError(t, err)
	s.requireOpen(t, 0)

	s.Advance(t, forever)
	s.sweep(t)
	s.requireOpen(t, 0)
}

func openLimit(t *testing.T, s *fixture) {
	for range 5 {
		s.win(t, s.command(store.Park))
	}
	for _, limit := range []int{1, 4, 5, 6} {
		got, err := s.instances[0].CountOpen(s.ctx, s.command(store.Park).Scope, limit)
		require.NoError(t, err)
		require.Equal(t, min(limit, 5), got)
	}
}

// An imported record that was unknown in the old system is as open as one that has become unknown here.
func openImported(t *testing.T, s *fixture) {
	unknown, completed := s.imported(t, store.Unknown), s.imported(t, store.Completed)
	s.requireOpen(t, 2) // they were made beside two claims
	s.importAll(t, unknown, completed)
	s.requireOpen(t, 3)
	_, err := s.Store.Settle(s.ctx, notApplied(unknown))
	require.NoError(t, err)
	s.requireOpen(t, 2)
}

// CONTRACT S-1
func openApart(t *testing.T, s *fixture) {
	other := s.command(store.Park)
	p := core.Principal{Issuer: "https://issuer.example", Tenant: "t-1", Subject: "u-2"}
	other.ID, other.Scope = core.Scoping{}.RecordID(p, s.key(1)), core.Scoping{}.PrincipalScope(p)
	s.win(t, other)
	s.requireOpen(t, 0)
	s.win(t, s.command(store.Park))
	s.requireOpen(t, 1)
}

func openManyAtOnce(t *testing.T, s *fixture) {
	claims := make([]store.Claim, burst)
	for i := range claims {
		claims[i] = s.command(store.Park)
	}
	atOnce(burst, func(i int) {
		st := s.instances[i%len(s.instances)]
		got, err := st.Claim(s.ctx, claims[i])
		if !assert.NoError(t, err) || i%2 == 0 {
			return
		}
		assert.NoError(t, st.End(s.ctx, got.Record.Ticket, answered(kept(answerOf("paid")))))
	})
	s.requireOpen(t, burst/2)
}

func openCancelled(t *testing.T, s *fixture) {
	ctx := s.over()
	_, err := s.instances[0].CountOpen(ctx, s.command(store.Park).Scope, 1)
	noSentinel(t, err)
}
