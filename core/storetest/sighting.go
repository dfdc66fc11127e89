package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

var sightingChecks = []check{
	{"Sight/SameKey", sightSameKey},
	{"Sight/OtherKey", sightOtherKey},
	{"Sight/Repeats", sightRepeats},
	{"Sight/Window", sightWindow},
	{"Sight/Tentative", sightTentative},
	{"Sight/Kept", sightKept},
	{"Sight/NoKey", sightNoKey},
	{"Sight/Apart", sightApart},
	{"Sight/LeavesRecords", sightLeavesRecords},
	{"Sight/Swept", sightSwept},
	{"Sight/ManyAtOnce", sightManyAtOnce},
	{"Sight/Cancelled", sightCancelled},
}

const window = 10 * time.Minute

// sighting returns the sighting of a command that the store has not seen, under a key that it has not seen.
func (s *fixture) sighting() store.Sighting {
	c := s.command(store.Park)
	return store.Sighting{ID: c.ID, Scope: c.Scope, Hash: c.Hash, Window: window, Keep: retention}
}

// rekeyed returns the same command under a new key.
func (s *fixture) rekeyed(c store.Sighting) store.Sighting {
	c.ID = s.command(store.Park).ID
	return c
}

func (s *fixture) sight(t *testing.T, c store.Sighting) store.Seen {
	t.Helper()
	seen, err := s.watcher().Sight(s.ctx, c)
	require.NoError(t, err)
	return seen
}

// watcher is one instance after the other.
func (s *fixture) watcher() store.Sightings {
	s.sights++
	return s.watchers[s.sights%len(s.watchers)]
}

func sightSameKey(t *testing.T, s *fixture) {
	c := s.sighting()
	require.Equal(t, store.Seen{}, s.sight(t, c), "nothing has come before the first")
	require.Equal(t, store.Seen{Key: true, First: c.Hash}, s.sight(t, c))
	other := c
	other.Hash = hashOf("another command")
	require.Equal(t, store.Seen{Key: true, First: c.Hash}, s.sight(t, other))
	require.Equal(t, store.Seen{Key: true, First: c.Hash}, s.sight(t, c), "the first command stands")
}

func sightOtherKey(t *testing.T, s *fixture) {
	first := s.sighting()
	second := s.rekeyed(first)
	s.sight(t, first)
	s.Advance(t, time.Second)
	require.Equal(t, store.Seen{Rekeyed: true, Earlier: first.ID}, s.sight(t, second))
	s.Advance(t, time.Second)
	require.Equal(t, store.Seen{Rekeyed: true, Earlier: second.ID}, s.sight(t, s.rekeyed(first)), "the latest counts")
}

// A repeat is judged as its key was judged the first time, whatever came in between.
func sightRepeats(t *testing.T, s *fixture) {
	first := s.sighting()
	second := s.rekeyed(first)
	s.sight(t, first)
	s.Advance(t, time.Second)
	s.sight(t, second)
	require.Equal(t, store.Seen{Key: true, First: first.Hash}, s.sight(t, first), "no key came before the first")
	require.Equal(t, store.Seen{Key: true, First: first.Hash, Rekeyed: true, Earlier: first.ID}, s.sight(t, second))
}

func sightWindow(t *testing.T, s *fixture) {
	first := s.sighting()
	s.sight(t, first)
	s.Advance(t, window-time.Minute)
	second := s.rekeyed(first)
	require.Equal(t, store.Seen{Rekeyed: true, Earlier: first.ID}, s.sight(t, second))
	s.Advance(t, 2*time.Minute)
	require.Equal(t, store.Seen{Key: true, First: first.Hash}, s.sight(t, second), "the window is counted from now")
	s.Advance(t, window)
	require.Equal(t, store.Seen{}, s.sight(t, s.rekeyed(first)))
}

// A request that will be refused is not noted: it does not make the next one suspect.
func sightTentative(t *testing.T, s *fixture) {
	first := s.sighting()
	first.Tentative = true
	s.sight(t, first)
	require.True(t, s.sight(t, first).Key, "there was nothing to refuse")
	s.Advance(t, window/2)
	second := s.rekeyed(first)
	for range 2 {
		require.Equal(t, store.Seen{Rekeyed: true, Earlier: first.ID}, s.sight(t, second))
	}
	s.Advance(t, window/2+time.Minute)
	third := s.rekeyed(first)
	require.Equal(t, store.Seen{}, s.sight(t, third), "the second one was not noted")
	require.Equal(t, store.Seen{Key: true, First: first.Hash}, s.sight(t, third))
}

func sightKept(t *testing.T, s *fixture) {
	c := s.sighting()
	s.sight(t, c)
	s.Advance(t, retention-time.Hour)
	require.True(t, s.sight(t, c).Key)
	s.Advance(t, 2*time.Hour)
	require.Equal(t, store.Seen{}, s.sight(t, c), "its time is over, swept or not")
	require.Equal(t, store.Seen{Key: true, First: c.Hash}, s.sight(t, c), "and begins anew")
	s.Advance(t, retention-time.Hour)
	require.True(t, s.sight(t, c).Key)
}

func sightNoKey(t *testing.T, s *fixture) {
	bare := s.sighting()
	keyed := bare
	bare.ID = store.ID{}
	require.Equal(t, store.Seen{}, s.sight(t, bare))
	s.Advance(t, time.Second)
	require.Equal(t, store.Seen{Rekeyed: true}, s.sight(t, bare), "no key is no key to be known by")
	s.Advance(t, time.Second)
	require.Equal(t, store.Seen{Rekeyed: true}, s.sight(t, keyed))
	s.Advance(t, time.Second)
	require.Equal(t, store.Seen{Rekeyed: true, Earlier: keyed.ID}, s.sight(t, bare))
	s.Advance(t, 2*window)
	require.Equal(t, store.Seen{}, s.sight(t, bare))
}

// CONTRACT S-1
func sightApart(t *testing.T, s *fixture) {
	c := s.sighting()
	s.sight(t, c)
	s.Advance(t, time.Second)

	otherCommand := s.rekeyed(c)
	otherCommand.Hash = hashOf("another command")
	require.Equal(t, store.Seen{}, s.sight(t, otherCommand))

	p := core.Principal{Issuer: "https://issuer.example", Tenant: "t-1", Subject: "u-2"}
	otherPrincipal := c
	otherPrincipal.ID, otherPrincipal.Scope = core.Scoping{}.RecordID(p, s.key(1)), core.Scoping{}.PrincipalScope(p)
	require.Equal(t, store.Seen{}, s.sight(t, otherPrincipal))
}

// CONTRACT M-6
func sightLeavesRecords(t *testing.T, s *fixture) {
	c := s.command(store.Park)
	seen := store.Sighting{ID: c.ID, Scope: c.Scope, Hash: c.Hash, Window: window, Keep: retention}
	require.Equal(t, store.Seen{}, s.sight(t, seen))
	r := s.win(t, c) // a sighting is no claim
	require.Equal(t, store.Seen{Key: true, First: c.Hash}, s.sight(t, seen))
	requireSame(t, r, s.find(t, c.ID))
}

func sightSwept(t *testing.T, s *fixture) {
	for range 5 {
		s.sight(t, s.sighting())
	}
	swept, err := s.Store.Sweep(s.ctx, 100, store.Window{})
	require.NoError(t, err)
	require.Equal(t, store.Swept{}, swept)

	s.Advance(t, retention+time.Hour)
	for _, want := range []int{3, 2, 0} {
		swept, err := s.Store.Sweep(s.ctx, 3, store.Window{})
		require.NoError(t, err)
		require.Equal(t, store.Swept{Sightings: want}, swept)
	}
}

func sightManyAtOnce(t *testing.T, s *fixture) {
	c := s.sighting()
	news := make([]bool, burst)
	atOnce(burst, func(i int) {
		seen, err := s.watchers[i%len(s.watchers)].Sight(s.ctx, c)
		if assert.NoError(t, err) && seen.Key {
			assert.Equal(t, c.Hash, seen.First)
		}
		news[i] = err == nil && !seen.Key
	})
	n := 0
	for _, isNew := range news {
		if isNew {
			n++
		}
	}
	require.Equal(t, 1, n, "one of many is the first")
}

func sightCancelled(t *testing.T, s *fixture) {
	ctx := s.over()
	c := s.sighting()
	_, err := s.watchers[0].Sight(ctx, c)
	noSentinel(t, err)
	require.Equal(t, store.Seen{}, s.sight(t, c))
}
