package storetest

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var claimChecks = []check{
	{"Claim/FirstWins", firstClaimWins},
	{"Claim/RoundTrip", recordComesBackWhole},
	{"Claim/OneOfManyWins", oneOfManyWins},
	{"Claim/KeysDoNotMeet", keysDoNotMeet},
	{"Claim/ParkNeverAgain", parkIsNeverTakenOver},
}

// The comparison of commands is the caller's (M-1): the store hands out the row that is there, whatever the command.
//
// CONTRACT M-1, M-2, M-6
func firstClaimWins(t *testing.T, s *fixture) {
	for _, r := range []store.Recovery{store.Park, store.Resume} {
		c, first := s.won(t, r)
		require.EqualValues(t, 1, first.Fence, "the fence of a first attempt")
		requireNew(t, c, first)
		requireNew(t, c, s.find(t, c.ID))
		requireNew(t, c, s.lose(t, repeat(c)))
		requireNew(t, c, s.lose(t, otherCommand(c)))
		requireNew(t, c, s.find(t, c.ID)) // the losers left no trace
	}
}

// CONTRACT M-3, H-4, R-3, R-4
func recordComesBackWhole(t *testing.T, s *fixture) {
	everyByte := make([]byte, 1024)
	for i := range everyByte {
		everyByte[i] = byte(i)
	}
	large := make([]byte, 1<<20) // the default cap of an answer
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range large {
		large[i] = byte(rnd.Uint32())
	}
	answers := map[string]store.Answer{
		"several values": {Status: http.StatusCreated, Body: []byte(`{"id":9007199254740993}`), Header: http.Header{
			"Content-Type": {"application/json"},
			"Link":         {`</a>; rel="next"`, `</b>; rel="prev"`, `</a>; rel="next"`},
			"X-Empty":      {""},
			"X-Json":       {`{"a":["\u0000 <&>"]}`},
		}},
		"nothing": {Status: http.StatusNoContent},
		"empty":   {Status: http.StatusOK, Header: http.Header{}, Body: []byte{}},
		"binary":  {Status: http.StatusOK, Body: everyByte},
		"large":   {Status: http.StatusOK, Body: large},
		"not UTF-8": {Status: http.StatusOK, Header: http.Header{
			"Content-Disposition": {"attachment; filename=\"caf\xe9\""},
		}},
		"no JSON":       {Status: http.StatusOK, Body: []byte(`{"a": 1.10,  "a":`)},
		"redirect":      {Status: http.StatusSeeOther, Header: http.Header{"Location": {"/payments/1?a=b&c=ü"}}},
		"refusal":       {Status: http.StatusPaymentRequired, Body: []byte("declined\n")},
		"partial":       {Status: http.StatusCreated, Header: http.Header{"Location": {"/exports/1"}}, Partial: true},
		"highest":       {Status: 599},
		"trailing NULs": {Status: http.StatusOK, Body: []byte("\x00a\x00\x00")},
	}
	for name, a := range answers {
		t.Run(name, func(t *testing.T) {
			c := s.command(store.Park)
			c.Route = "/v1/" + strings.Repeat("zahlungen/ü'\"\\%/", 20) + ":id/*rest"
			c.Method = "X-CUSTOM"
			c.Hash.Version = 32767
			won := s.win(t, c)
			require.NoError(t, s.Store.End(s.ctx, won.Ticket, answered(kept(a))))

			want := won
			want.Stored, want.Answer = store.Completed, a
			for _, got := range []store.Record{s.find(t, c.ID), s.lose(t, repeat(c)), s.lose(t, otherCommand(c))} {
				require.Equal(t, store.Completed, got.State())
				require.WithinDuration(t, got.CreatedAt.Add(retention), got.ExpiresAt, lease, "ExpiresAt")
				want.ExpiresAt, want.PurgeAt = got.ExpiresAt, got.ExpiresAt.Add(tombstone)
				want.CreatedAt, want.LeaseUntil, want.Deadline = got.CreatedAt, got.CreatedAt.Add(lease),
					got.CreatedAt.Add(deadline)
				requireSame(t, want, got)
			}
			c = repeat(c)
			c.Lean = true
			got := s.lose(t, c)
			require.Equal(t, store.Completed, got.State())
			want.Owner, want.Scope, want.Realm, want.Method, want.Route = got.Owner, got.Scope, got.Realm, got.Method, got.Route
			want.Attempts, want.Timed, want.CreatedAt = got.Attempts, got.Timed, got.CreatedAt
			want.LeaseUntil, want.Deadline = got.LeaseUntil, got.Deadline
			requireSame(t, want, got)
		})
	}
}

// Many repeats come at once, on every instance: a store that checks and then acts fails here. The rounds are for the
// narrow window in which the winner's row has just become visible.
//
// CONTRACT M-6
func oneOfManyWins(t *testing.T, s *fixture) {
	for range 5 {
		c := s.command(store.Park)
		winner, others := s.race(t, func() store.Claim { return repeat(c) })
		require.EqualValues(t, 1, winner.Fence)
		for _, r := range others {
			requireSame(t, winner, r)
		}
		requireSame(t, winner, s.find(t, c.ID))
	}
}

// race lets many goroutines on every instance claim at once. Exactly one must win. race returns the winner's record,
// and the records that the losers found; a loser that was only told "busy" found none.
func (s *fixture) race(t *testing.T, claim func() store.Claim) (winner store.Record, others []store.Record) {
	t.Helper()
	var mu sync.Mutex
	won := 0
	atOnce(burst*len(s.instances), func(i int) {
		_, got, err := s.claim(s.instances[i%len(s.instances)], claim())
		mu.Lock()
		defer mu.Unlock()
		switch {
		case !assert.NoError(t, err):
		case got.Won:
			won++
			winner = got.Record
		case got.Busy:
			assert.Zero(t, got.Record, "Busy means that nothing can be seen")
		default:
			others = append(others, got.Record)
		}
	})
	require.Equal(t, 1, won, "winners")
	return winner, others
}

// CONTRACT S-1
func keysDoNotMeet(t *testing.T, s *fixture) {
	a, b := s.command(store.Park), s.command(store.Park)
	b.ID = a.ID
	b.ID[len(b.ID)-1] ^= 1 // the last bit
	b.Hash = a.Hash
	wonA, wonB := s.win(t, a), s.win(t, b)
	s.complete(t, wonA, "a")
	requireNew(t, b, s.find(t, b.ID))

	foreign := wonB.Ticket
	foreign.Owner = wonA.Owner
	require.ErrorIs(t, s.Store.End(s.ctx, foreign, answered(kept(answerOf("a")))), store.ErrStale)
	requireNew(t, b, s.find(t, b.ID))
}

// A Park attempt past its lease is unknown to every reader without any sweep. It stays unknown: neither time nor a
// claim runs it again.
//
// CONTRACT T-4, M-4, M-7
func parkIsNeverTakenOver(t *testing.T, s *fixture) {
	c, won := s.won(t, store.Park)
	s.Advance(t, lease/2)
	s.requireState(t, store.Running, c)
	s.Advance(t, lease)
	s.requireState(t, store.Unknown, c)
	for _, wait := range []time.Duration{deadline, retention, forever} {
		s.Advance(t, wait)
		s.sweep(t)
		s.requireState(t, store.Unknown, c)
		s.lose(t, otherCommand(c))
	}
	requireSame(t, won, s.find(t, c.ID))
}
