package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var cancelChecks = []check{
	{"Cancel/NothingHappens", cancelledNothingHappens},
	{"Ready/BesideAttempts", readyBesideAttempts},
}

// A store that has tables and a server is ready, whatever is under way, on every instance.
//
// CONTRACT F-8
func readyBesideAttempts(t *testing.T, s *fixture) {
	for range 2 {
		for _, one := range s.instances {
			require.NoError(t, one.Ready(s.ctx))
			noSentinel(t, one.Ready(s.over()))
		}
		s.win(t, s.command(store.Park))
	}
}

// A call whose context is over returns an error that claims to know nothing. The same call with a live context finds
// everything unchanged.
//
// CONTRACT F-1, R-5
func cancelledNothingHappens(t *testing.T, s *fixture) {
	over := s.over()

	c := s.command(store.Park)
	got, err := s.Store.Claim(over, c)
	noSentinel(t, err)
	require.False(t, got.Won)
	require.NoError(t, s.Store.Release(s.ctx, []store.Ticket{{ID: c.ID, Owner: c.Owner}}))

	won := s.win(t, repeat(c))
	noSentinel(t, s.Store.End(over, won.Ticket, answered(kept(answerOf("cancelled")))))
	noSentinel(t, s.Store.End(over, won.Ticket, asUnknown))
	noSentinel(t, s.Store.Renew(over, won.Ticket, deadline))
	noSentinel(t, s.Store.End(over, won.Ticket, asFree))
	_, err = s.Store.Find(over, c.ID, store.Viewer{All: true})
	noSentinel(t, err)
	_, err = s.Store.List(over, everyOne())
	noSentinel(t, err)
	requireSame(t, won, s.find(t, c.ID))

	s.Advance(t, 2*deadline)
	_, err = s.Store.Settle(over, notApplied(won))
	noSentinel(t, err)
	_, err = s.Store.Settle(over, applied(won, "cancelled"))
	noSentinel(t, err)
	requireSame(t, won, s.find(t, c.ID))
	s.complete(t, won, "done")

	s.Advance(t, forever)
	_, err = s.Store.Sweep(over, 10, store.Window{})
	noSentinel(t, err)
	s.find(t, c.ID)
}
