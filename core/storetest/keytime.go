package storetest

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

var keyTimeChecks = []check{
	{"KeyTime/Judged", keyTimeJudged},
	{"KeyTime/RecordFirst", keyTimeRecordFirst},
	{"KeyTime/Freed", keyTimeFreed},
	{"KeyTime/Clock", keyTimeClock},
	{"KeyTime/Swept", keyTimeSwept},
	{"KeyTime/Dropped", keyTimeDropped},
	{"KeyTime/TombstoneDropped", keyTimeTombstoneDropped},
	{"KeyTime/FreedAndDropped", keyTimeFreedAndDropped},
	{"KeyTime/Resumed", keyTimeResumed},
	{"KeyTime/RefuseBefore", keyTimeRefuseBefore},
	{"KeyTime/RefuseBeforeHistory", keyTimeRefuseBeforeHistory},
	{"KeyTime/RefuseBeforeByAnyClock", keyTimeRefuseBeforeByAnyClock},
	{"KeyTime/Ages", keyTimeAges},
	{"KeyTime/AgesByBothClocks", keyTimeAgesByBothClocks},
	{"KeyTime/Left", keyTimeLeft},
	{"KeyTime/LeftBelowFloor", keyTimeLeftBelowFloor},
	{"KeyTime/Cancelled", keyTimeCancelled},
	{"KeyTime/SweepRace", keyTimeSweepRace},
	{"KeyTime/Transaction", keyTimeTransaction},
	{"KeyTime/RunningTransaction", keyTimeRunningTransaction},
	{"KeyTime/EndRace", keyTimeEndRace},
	{"KeyTime/Imported", keyTimeImported},
	{"KeyTime/ImportedOverFreed", keyTimeImportedOverFreed},
}

// anyTime is the window of a key that is neither too old nor ahead: only the floor can refuse it.
var anyTime store.Window

// timed returns the claim of a new command whose key was made at made, by a module whose clock shows now.
func (s *fixture) timed(r store.Recovery, now, made time.Time) store.Claim {
	c := s.command(r)
	p := core.Principal{Issuer: "https://issuer.example", Tenant: "t-1", Subject: "u-1"}
	made = time.UnixMilli(made.UnixMilli())
	c.ID = core.Scoping{}.RecordID(p, keyMadeAt(made))
	c.Window = store.Window{From: now.Add(-time.Hour), To: now.Add(time.Hour)}
	c.Key = store.KeyTime{Made: made, Timed: true}
	return c
}

// keyMadeAt returns a new UUIDv7 of a time.
func keyMadeAt(made time.Time) string {
	var u [16]byte
	binary.BigEndian.PutUint64(u[:], uint64(made.UnixMilli())<<16)
	rand.Read(u[6:]) // never fails since Go 1.24
	u[6], u[8] = u[6]&0x0f|0x70, u[8]&0x3f|0x80
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// valid is c with a window for its key.
func valid(c store.Claim, w store.Window) store.Claim {
	c.Key.Valid = w
	return c
}

// past, present and future are windows: the store's clock has left past, is in present, and has not reached future.
func around(now time.Time) (past, present, future store.Window) {
	return store.Window{From: now.Add(-48 * time.Hour), To: now.Add(-30 * time.Minute)},
		store.Window{From: now.Add(-30 * time.Minute), To: now.Add(30 * time.Minute)},
		store.Window{From: now.Add(30 * time.Minute), To: now.Add(48 * time.Hour)}
}

// requireKeyRefused checks that every instance refuses c by its time, and leaves nothing behind.
func (s *fixture) requireKeyRefused(t *testing.T, c store.Claim) {
	t.Helper()
	for _, st := range s.instances {
		got, err := st.Claim(s.ctx, repeat(c))
		require.NoError(t, err)
		require.True(t, got.KeyRefused, "the claim must be refused by its time; it found %s", brief(got))
		require.False(t, got.Won || got.Busy)
		require.False(t, got.Record.Now.IsZero(), "Now is the store's clock")
		require.Equal(t, store.Record{Now: got.Record.Now}, got.Record)
	}
}

// CONTRACT T-6
func keyTimeJudged(t *testing.T, s *fixture) {
	now := s.now(t)
	past, present, future := around(now)
	c := s.timed(store.Park, now, now.Add(-time.Minute))
	for _, w := range []store.Window{past, future, {From: present.To, To: present.From}} {
		s.requireKeyRefused(t, valid(c, w))
		s.requireGone(t, c.ID)
	}
	won := s.win(t, valid(c, present))
	require.True(t, won.Timed)
	require.Equal(t, c.Key.Made.UnixMilli(), won.KeyMade().UnixMilli())
	require.True(t, s.find(t, c.ID).Timed)

	bare := s.command(store.Park)
	require.False(t, s.win(t, bare).Timed)
	require.True(t, s.find(t, bare.ID).KeyMade().IsZero())
}

// A record answers whatever the time of its key is.
//
// CONTRACT T-6, M-3
func keyTimeRecordFirst(t *testing.T, s *fixture) {
	now := s.now(t)
	past, present, future := around(now)
	c := s.timed(store.Park, now, now)
	won := s.win(t, valid(c, present))
	for _, w := range []store.Window{past, future} {
		require.Equal(t, store.Running, s.lose(t, valid(repeat(c), w)).Stored)
	}
	paid := store.Completion{Answer: answerOf("paid"), Retention: retention}
	require.NoError(t, s.Store.End(s.ctx, won.Ticket, answered(paid)))
	require.NoError(t, s.Store.(store.Settings).RefuseKeysBefore(s.ctx, service(c),
		store.Refusal{Before: now.Add(time.Minute)}))
	for _, w := range []store.Window{past, future} {
		rec := s.lose(t, valid(repeat(c), w))
		require.Equal(t, store.Completed, rec.State())
		require.True(t, rec.Timed)
		requireAnswer(t, answerOf("paid"), rec.Answer)
	}
}

// A freed key is judged as one without a record. Once timed, a record stays timed.
//
// CONTRACT T-6
func keyTimeFreed(t *testing.T, s *fixture) {
	now := s.now(t)
	past, present, _ := around(now)
	c := s.timed(store.Park, now, now)
	require.NoError(t, s.Store.End(s.ctx, s.win(t, valid(c, present)).Ticket, asFree))
	s.requireKeyRefused(t, valid(c, past))
	require.Equal(t, store.Free, s.find(t, c.ID).Stored)
	c.Key.Timed = false // another release of the app
	again := s.win(t, repeat(c))
	require.EqualValues(t, 2, again.Fence)
	require.True(t, again.Timed)
	require.True(t, s.find(t, c.ID).Timed)
}

// No clock outside of the window judges a timed key.
//
// CONTRACT T-6, T-5
func keyTimeClock(t *testing.T, s *fixture) {
	now := s.now(t)
	ahead, behind, right := windows(now)
	fresh, freed := s.timed(store.Park, now, now), s.timed(store.Park, now, now)
	require.NoError(t, s.Store.End(s.ctx, s.win(t, freed).Ticket, asFree))
	for _, c := range []store.Claim{fresh, freed} {
		for _, w := range []store.Window{ahead, behind} {
			c.Window = w
			for _, st := range s.instances {
				got, err := st.Claim(s.ctx, repeat(c))
				require.ErrorIs(t, err, store.ErrClock)
				require.False(t, got.Won)
			}
		}
		c.Window = right
		s.win(t, repeat(c))
	}
}

// timedDone answers the command of a timed key. It leaves no tombstone.
func (s *fixture) timedDone(t *testing.T, c store.Claim) {
	t.Helper()
	won := s.win(t, c)
	paid := store.Completion{Answer: answerOf("paid"), Retention: retention}
	require.NoError(t, s.Store.End(s.ctx, won.Ticket, answered(paid)))
}

// A timed key that has been answered is refused for ever: before a sweep, after it, and after the route allows older
// keys.
//
// CONTRACT T-6, T-4, T-3
func keyTimeSwept(t *testing.T, s *fixture) {
	now := s.now(t)
	made := now.Add(-time.Hour)
	c := s.timed(store.Park, now, made)
	s.timedDone(t, c)
	s.Advance(t, retention+time.Hour)
	c.Window = store.Window{}
	refused := func() {
		t.Helper()
		s.requireKeyRefused(t, valid(c, anyTime))
		untimed := c
		untimed.Key.Timed = false
		s.requireKeyRefused(t, untimed)
	}
	refused()
	require.True(t, s.find(t, c.ID).Spent())
	s.sweep(t)
	s.requireGone(t, c.ID)
	refused()
}

// The floor belongs to the timed keys of a service, and to the route of the record that was dropped.
//
// CONTRACT T-6, S-4
func keyTimeDropped(t *testing.T, s *fixture) {
	now := s.now(t)
	made := now.Add(-time.Hour)
	newest := s.timed(store.Park, now, made)
	s.timedDone(t, newest)
	s.timedDone(t, s.timed(store.Park, now, made.Add(-time.Hour)))
	s.Advance(t, retention+time.Hour)
	s.sweep(t)
	claim := func(made time.Time, change func(c *store.Claim)) store.Claim {
		c := s.timed(store.Park, now, made)
		c.Window = store.Window{}
		change(&c)
		return c
	}
	same := func(*store.Claim) {}
	elsewhere := func(c *store.Claim) { c.Route = "/v1/elsewhere" }
	untimed := func(c *store.Claim) { c.Key.Timed = false }
	for name, c := range map[string]store.Claim{
		"as old":           claim(made, same),
		"older":            claim(made.Add(-time.Minute), same),
		"on another route": claim(made, elsewhere),
		"untimed":          claim(made, untimed),
	} {
		t.Run(name, func(t *testing.T) { s.requireKeyRefused(t, c) })
	}
	for name, c := range map[string]store.Claim{
		"younger":                   claim(made.Add(time.Millisecond), same),
		"younger, untimed":          claim(made.Add(time.Millisecond), untimed),
		"untimed, on another route": claim(made, func(c *store.Claim) { untimed(c); elsewhere(c) }),
		"of another method":         claim(made, func(c *store.Claim) { untimed(c); c.Method = "PUT" }),
		"of another service":        claim(made, func(c *store.Claim) { c.Realm[0]++ }),
		"of another realm":          claim(made.Add(time.Second), func(c *store.Claim) { c.Realm[8]++ }),
		"without a time":            claim(made, func(c *store.Claim) { c.Key = store.KeyTime{} }),
	} {
		t.Run(name, func(t *testing.T) { s.win(t, c) })
	}
	s.requireKeyRefused(t, claim(made, func(c *store.Claim) { c.Realm[8]++ })) // all realms of a service share its floor
}

// A record may become a tombstone before its key is too old: another route of the service keeps its records for longer.
// The floor rises when the tombstone is dropped, and no earlier: older keys of that route are still young enough.
//
// CONTRACT T-6, T-3
func keyTimeTombstoneDropped(t *testing.T, s *fixture) {
	now := s.now(t)
	c := s.timed(store.Park, now, now.Add(-time.Hour))
	s.complete(t, s.win(t, c), "paid")
	s.Advance(t, retention+time.Hour)
	require.Equal(t, store.Swept{Tombstones: 1}, s.sweep(t))
	older := s.timed(store.Park, now, now.Add(-2*time.Hour))
	older.Window = store.Window{}
	s.win(t, older)
	s.Advance(t, tombstone)
	require.Equal(t, store.Swept{Dropped: 1}, s.sweep(t))
	s.requireGone(t, c.ID)
	c.Window = store.Window{}
	for _, isTimed := range []bool{true, false} {
		c.Key.Timed = isTimed
		s.requireKeyRefused(t, valid(c, anyTime)) // by whatever clock: the claim's has gone back, say
	}
}

// A freed command was not carried out: dropping its record refuses no key.
//
// CONTRACT T-6
func keyTimeFreedAndDropped(t *testing.T, s *fixture) {
	now := s.now(t)
	c := s.timed(store.Park, now, now.Add(-time.Hour))
	require.NoError(t, s.Store.End(s.ctx, s.win(t, c).Ticket, asFree))
	s.Advance(t, forever)
	s.sweep(t)
	s.requireGone(t, c.ID)
	c.Window = store.Window{}
	s.win(t, repeat(c))
}

// The key of an operation that resumes is not judged: the operation has its record.
//
// CONTRACT T-6, X-10
func keyTimeResumed(t *testing.T, s *fixture) {
	now := s.now(t)
	past, present, _ := around(now)
	c := s.timed(store.Resume, now, now)
	s.win(t, valid(c, present))
	s.Advance(t, 2*lease)
	require.NoError(t, s.Store.(store.Settings).RefuseKeysBefore(s.ctx, service(c),
		store.Refusal{Before: now.Add(time.Minute)}))
	again := s.win(t, valid(repeat(c), past))
	require.EqualValues(t, 2, again.Fence)
	require.True(t, again.Timed)

	// The time of a key that was taken without one was not judged. Its record must not raise a floor one day.
	untimed := s.timed(store.Resume, now, now.Add(100*24*time.Hour))
	untimed.Key = store.KeyTime{}
	s.win(t, untimed)
	s.Advance(t, 2*lease)
	timed := repeat(untimed)
	timed.Key = valid(c, past).Key
	require.False(t, s.win(t, timed).Timed)
	require.False(t, s.find(t, untimed.ID).Timed)
}

// service is the service of a claim.
func service(c store.Claim) []byte { return c.Realm[:8] }

// CONTRACT T-6
func keyTimeRefuseBefore(t *testing.T, s *fixture) {
	now := s.now(t)
	for i := range 2 { // both services have floors, and their routes too
		c := s.timed(store.Park, now, now.Add(-48*time.Hour))
		c.Realm[0] += byte(i)
		s.timedDone(t, c)
	}
	s.Advance(t, retention+time.Hour)
	s.sweep(t)
	now = s.now(t)
	at := time.UnixMilli(now.UnixMilli())
	claim := func(made time.Time) store.Claim { return s.timed(store.Park, now, made) }
	refuse := func(c store.Claim, before time.Time) {
		t.Helper()
		require.NoError(t, s.instances[len(s.instances)-1].(store.Settings).RefuseKeysBefore(s.ctx, service(c),
			store.Refusal{Before: before}))
	}
	untimed := func(made time.Time) store.Claim {
		c := claim(made)
		c.Key.Timed = false
		return c
	}
	s.win(t, claim(at.Add(-time.Hour)))
	s.win(t, untimed(at.Add(-time.Hour)))
	refuse(claim(at), at)
	s.requireKeyRefused(t, claim(at.Add(-time.Millisecond)))
	s.requireKeyRefused(t, claim(at.Add(-time.Hour)))
	s.requireKeyRefused(t, untimed(at.Add(-time.Millisecond)))
	s.win(t, claim(at))
	s.win(t, untimed(at))

	refuse(claim(at), at.Add(-time.Hour)) // it only rises
	s.requireKeyRefused(t, claim(at.Add(-time.Millisecond)))
	s.requireKeyRefused(t, untimed(at.Add(-time.Millisecond)))
	for _, other := range []store.Claim{claim(at.Add(-time.Minute)), untimed(at.Add(-time.Minute))} {
		other.Realm[0]++
		s.win(t, other)
	}
	young := untimed(at.Add(time.Second)) // its route has had timed keys, and has dropped no record
	young.Route = "/v1/young"
	_, err := s.Store.(store.Settings).KeepAge(s.ctx, service(young), young.Method+" "+young.Route, time.Hour, store.Window{})
	require.NoError(t, err)
	refuse(claim(at), at.Add(time.Minute))
	s.requireKeyRefused(t, young)
	refuse(claim(at), at.Add(-time.Hour)) // that floor only rises, too
	s.requireKeyRefused(t, young)
	s.requireKeyRefused(t, claim(at))
}

// A refusal by an operator whose clock is wrong changes nothing: it could not be taken back.
//
// CONTRACT T-6, T-5
func keyTimeRefuseBeforeByAnyClock(t *testing.T, s *fixture) {
	now := s.now(t)
	c := s.timed(store.Park, now, now)
	ahead, behind, right := windows(now)
	for _, w := range []store.Window{ahead, behind} {
		require.ErrorIs(t, s.Store.(store.Settings).RefuseKeysBefore(s.ctx, service(c),
			store.Refusal{Before: now.Add(time.Minute), Window: w}), store.ErrClock)
	}
	s.win(t, c)
	require.NoError(t, s.Store.(store.Settings).RefuseKeysBefore(s.ctx, service(c),
		store.Refusal{Before: now.Add(time.Minute), Window: right}))
	s.requireKeyRefused(t, s.timed(store.Park, now, now))
}

// CONTRACT T-6
func keyTimeAges(t *testing.T, s *fixture) {
	now := s.now(t)
	_, _, right := windows(now)
	c := s.timed(store.Park, now, now)
	keep := func(service []byte, route string, age time.Duration) (kept store.AgeLimit) {
		t.Helper()
		for i := range 2 * len(s.instances) {
			got, err := s.instances[i%len(s.instances)].(store.Settings).KeepAge(s.ctx, service, route, age, right)
			require.NoError(t, err)
			require.True(t, i == 0 || got == kept, "it is kept once: %v, then %v", kept, got)
			kept = got
		}
		require.Equal(t, age, kept.Age)
		require.WithinDuration(t, now, kept.Since, patience)
		return kept
	}
	const route = "POST /v1/payments/%_'\\"
	require.Equal(t, 24*time.Hour, keep(service(c), route, 40*time.Hour).Before, "keys from before had tombstones")
	require.Equal(t, time.Hour, keep(service(c), "POST /v1/short", time.Hour).Before)
	require.Equal(t, 20*time.Hour, keep(service(c), route, 20*time.Hour).Before)
	first := keep(service(c), route, 10*time.Hour)
	require.Equal(t, 10*time.Hour, first.Before)
	raised := keep(service(c), route, 50*time.Hour)
	require.Equal(t, 10*time.Hour, raised.Before)
	require.False(t, raised.Since.Before(first.Since))
	require.Equal(t, 10*time.Hour, keep(service(c), route, 60*time.Hour).Before, "the shortest of the last 72 h")

	other := append([]byte{service(c)[0] + 1}, service(c)[1:]...)
	require.Equal(t, 5*time.Hour, keep(other, route, 5*time.Hour).Before)
	require.Equal(t, time.Hour, keep(service(c), "POST /v1/short", time.Hour).Before)

	ahead, behind, _ := windows(now)
	for _, w := range []store.Window{ahead, behind} {
		_, err := s.Store.(store.Settings).KeepAge(s.ctx, service(c), route, 70*time.Hour, w)
		require.ErrorIs(t, err, store.ErrClock)
		kept, err := s.Store.(store.Settings).KeepAge(s.ctx, service(c), route, 60*time.Hour, w)
		require.NoError(t, err, "nothing is to be written")
		require.Equal(t, 60*time.Hour, kept.Age)
	}
}

// A clock that is ahead may have refused a key that the other clock has not refused. So the later of both says when an
// age became longer.
//
// CONTRACT T-6
func keyTimeAgesByBothClocks(t *testing.T, s *fixture) {
	now := s.now(t)
	c := s.timed(store.Park, now, now)
	for i, off := range []time.Duration{30 * time.Minute, -30 * time.Minute} {
		route := fmt.Sprintf("POST /v1/by-both-clocks/%d", i)
		w := store.Window{From: now.Add(off - time.Hour), To: now.Add(off + time.Hour)}
		kept, err := s.Store.(store.Settings).KeepAge(s.ctx, service(c), route, time.Hour, w)
		require.NoError(t, err)
		require.WithinDuration(t, now.Add(max(off, 0)), kept.Since, patience)
		kept, err = s.Store.(store.Settings).KeepAge(s.ctx, service(c), route, 0, w)
		require.NoError(t, err)
		require.WithinDuration(t, now.Add(max(off, 0)), kept.Left, patience)
	}
}

// A route that stops using timed keys still refuses the keys that were too old until then. It can stop once.
//
// CONTRACT T-6
func keyTimeLeft(t *testing.T, s *fixture) {
	now := s.now(t)
	ahead, behind, right := windows(now)
	claim := func(made time.Time) store.Claim {
		c := s.timed(store.Park, now, made)
		c.Key.Timed = false
		return c
	}
	c := claim(now)
	keep := func(age time.Duration) (kept store.AgeLimit) {
		t.Helper()
		for i := range 2 * len(s.instances) {
			got, err := s.instances[i%len(s.instances)].(store.Settings).KeepAge(s.ctx, service(c), c.Method+" "+c.Route, age, right)
			require.NoError(t, err)
			require.True(t, i == 0 || got == kept, "it is kept once: %v, then %v", kept, got)
			kept = got
		}
		return kept
	}
	require.Zero(t, keep(0), "the route had no timed keys")
	s.win(t, claim(now.Add(-50*time.Hour)))

	require.Zero(t, keep(2*time.Hour).Left)
	for _, w := range []store.Window{ahead, behind} {
		_, err := s.Store.(store.Settings).KeepAge(s.ctx, service(c), c.Method+" "+c.Route, 0, w)
		require.ErrorIs(t, err, store.ErrClock)
	}
	s.win(t, claim(now.Add(-50*time.Hour)))
	left := keep(0)
	require.WithinDuration(t, now, left.Left, patience)
	require.Equal(t, 2*time.Hour, left.Age)
	s.requireKeyRefused(t, claim(left.Floor()))
	s.requireKeyRefused(t, claim(now.Add(-50*time.Hour)))
	s.win(t, claim(left.Floor().Add(time.Millisecond)))
	elsewhere := claim(left.Floor())
	elsewhere.Route = "/v1/elsewhere"
	s.win(t, elsewhere)
	s.win(t, s.timed(store.Park, now, left.Floor())) // the timed keys of the service are judged by another floor

	s.Advance(t, time.Hour)
	now = s.now(t)
	_, _, right = windows(now)
	require.Equal(t, left, keep(0), "the time goes on, and what was young then stays so")
	again := keep(30 * time.Hour)
	require.Zero(t, again.Left)
	require.WithinDuration(t, now, again.Since, patience)
	require.Equal(t, 2*time.Hour, again.Before)
}

// Who has refused keys is in the history of the service, and of no operation.
//
// CONTRACT T-6, X-7
func keyTimeRefuseBeforeHistory(t *testing.T, s *fixture) {
	now := s.now(t).Truncate(time.Microsecond)
	c := s.command(store.Park)
	refuse := func(r store.Refusal) {
		require.NoError(t, s.Store.(store.Settings).RefuseKeysBefore(s.ctx, service(c), r))
	}
	refuse(store.Refusal{Before: now})
	refuse(store.Refusal{Before: now, Who: "chief", Why: "a restore"})
	refuse(store.Refusal{Before: now.Add(time.Minute), Who: "chief", Why: "another one"})
	history, err := s.Store.History(s.ctx, store.RefusalsID(service(c)))
	require.NoError(t, err)
	require.Len(t, history, 2)
	require.Equal(t, []string{"chief", "a restore"}, []string{history[0].Who, history[0].Why})
	require.True(t, now.Equal(history[0].RefusedBefore()))
	require.True(t, now.Add(time.Minute).Equal(history[1].RefusedBefore()))
	require.False(t, history[0].At.IsZero())
	require.Zero(t, history[0].BeforeState)
	require.False(t, history[0].Marked())
	settled, err := s.Store.LastSettled(s.ctx, service(c), "", 10)
	require.NoError(t, err)
	require.Empty(t, settled)
}

// A route that stops using timed keys goes on refusing what the service refused: an operator may have refused those
// keys after a restore, before the route had an age.
//
// CONTRACT T-6
func keyTimeLeftBelowFloor(t *testing.T, s *fixture) {
	now := s.now(t)
	_, _, right := windows(now)
	st := s.Store.(store.Settings)
	lost := s.timed(store.Park, now, now.Add(-time.Hour))
	require.NoError(t, st.RefuseKeysBefore(s.ctx, service(lost), store.Refusal{Before: now, Window: right}))
	for _, age := range []time.Duration{24 * time.Hour, 0} {
		_, err := st.KeepAge(s.ctx, service(lost), lost.Method+" "+lost.Route, age, right)
		require.NoError(t, err)
		lost.Key.Timed = age > 0
		s.requireKeyRefused(t, lost)
	}
}

// CONTRACT T-6
func keyTimeCancelled(t *testing.T, s *fixture) {
	now := s.now(t)
	c := s.timed(store.Park, now, now)
	over := s.over()
	st := s.Store.(store.Settings)
	_, err := st.KeepAge(over, service(c), "POST /", time.Hour, store.Window{})
	noSentinel(t, err)
	noSentinel(t, st.RefuseKeysBefore(over, service(c), store.Refusal{Before: now.Add(time.Hour)}))
	s.win(t, c)
}

// Repeats that come while sweeps drop the records of their keys never win: there is the record, or the floor.
//
// CONTRACT T-6, T-3, M-6
func keyTimeSweepRace(t *testing.T, s *fixture) {
	const records = 40
	now := s.now(t)
	claims := make([]store.Claim, records)
	for i := range claims {
		claims[i] = s.timed(store.Park, now, now.Add(-time.Duration(i)*time.Second))
		s.timedDone(t, claims[i])
		claims[i].Window = store.Window{}
	}
	s.Advance(t, retention+time.Hour)
	atOnce(8, func(i int) {
		st := s.instances[i%len(s.instances)]
		for n := range records {
			if i < 2 {
				_, err := st.Sweep(s.ctx, 2, store.Window{})
				assert.NoError(t, err)
				continue
			}
			got, err := st.Claim(s.ctx, repeat(claims[(n+i)%records]))
			assert.NoError(t, err)
			assert.False(t, got.Won, "a key was claimed that has been answered")
		}
	})
	s.sweep(t)
	for _, c := range claims {
		s.requireGone(t, c.ID)
		s.requireKeyRefused(t, c)
	}
}

// CONTRACT T-6, X-0
func keyTimeTransaction(t *testing.T, s *fixture) {
	if !s.rows {
		return
	}
	now := s.now(t)
	past, present, future := around(now)
	c := s.timed(store.Rollback, now, now)
	for _, w := range []store.Window{past, future} {
		for _, store := range s.attempts {
			tx, got := s.tryBegin(t, store, valid(repeat(c), w))
			require.Nil(t, tx)
			require.True(t, got.KeyRefused)
			held, err := store.InFlight(s.ctx, c.ID)
			require.NoError(t, err)
			require.False(t, held)
		}
	}
	s.requireGone(t, c.ID)
	tx, won := s.begin(t, valid(repeat(c), present))
	require.True(t, won.Timed)
	require.NoError(t, conclude(s.ctx, tx, store.Completion{Answer: answerOf("paid"), Retention: retention}, false))
	require.True(t, s.find(t, c.ID).Timed)
	s.Advance(t, retention+time.Hour)
	s.sweep(t)
	c.Window = store.Window{}
	tx, got := s.tryBegin(t, s.attempts[0], repeat(c))
	require.Nil(t, tx)
	require.True(t, got.KeyRefused)
}

// A key may get too old while its attempt runs: it is in flight, then answered; or refused, if the attempt left
// nothing.
//
// CONTRACT T-6, M-2
func keyTimeRunningTransaction(t *testing.T, s *fixture) {
	if !s.rows || s.unlocked {
		return
	}
	now := s.now(t)
	past, present, _ := around(now)
	for _, commit := range []bool{true, false} {
		c := s.timed(store.Rollback, now, now)
		tx, _ := s.begin(t, valid(c, present))
		for _, st := range s.attempts {
			for _, r := range []store.Recovery{store.Rollback, store.Park} {
				late := valid(repeat(c), past)
				late.Recovery = r
				var got store.Claimed
				if r == store.Rollback {
					_, got = s.tryBegin(t, st, late)
				} else {
					var err error
					got, err = st.Claim(s.ctx, late)
					require.NoError(t, err)
				}
				require.True(t, got.Busy, "an attempt is at it; the claim found %s", brief(got))
			}
		}
		if commit {
			require.NoError(t, conclude(s.ctx, tx, store.Completion{Answer: answerOf("paid"), Retention: retention}, false))
			requireAnswer(t, answerOf("paid"), s.lose(t, valid(repeat(c), past)).Answer)
		} else {
			require.NoError(t, tx.Rollback())
			s.requireKeyRefused(t, valid(c, past))
		}
	}
}

// A key gets too old, and repeats come while its attempt ends: they find the attempt or its answer.
//
// CONTRACT T-6, M-3, M-6
func keyTimeEndRace(t *testing.T, s *fixture) {
	if !s.rows || s.unlocked {
		return
	}
	now := s.now(t)
	past, present, _ := around(now)
	for range 20 {
		c := s.timed(store.Rollback, now, now)
		tx, _ := s.begin(t, valid(c, present))
		atOnce(8, func(i int) {
			if i == 0 {
				assert.NoError(t, conclude(s.ctx, tx, store.Completion{Answer: answerOf("paid"), Retention: retention}, false))
				return
			}
			late := valid(repeat(c), past)
			for range 10 {
				var got store.Claimed
				var err error
				if store := s.attempts[i%len(s.attempts)]; i%3 == 0 {
					_, got, err = store.Begin(s.ctx, late)
				} else {
					got, err = store.Claim(s.ctx, late)
				}
				assert.NoError(t, err)
				assert.False(t, got.Won)
				assert.False(t, got.KeyRefused, "the attempt was overlooked")
			}
		})
	}
}

// CONTRACT T-6, F-4
func keyTimeImported(t *testing.T, s *fixture) {
	now := s.now(t)
	c := s.timed(store.Park, now, now.Add(-time.Hour))
	rec := store.Record{
		Ticket: store.Ticket{ID: c.ID, Owner: c.Owner, Fence: 1}, Scope: c.Scope, Realm: c.Realm, Method: c.Method,
		Route: c.Route, Recovery: c.Recovery, Stored: store.Completed, Attempts: 1, Timed: true, Answer: answerOf("paid"),
		CreatedAt: now, LeaseUntil: now, Deadline: now, ExpiresAt: now.Add(retention), PurgeAt: now.Add(retention),
	}
	done, err := s.Store.Import(s.ctx, []store.Record{rec})
	require.NoError(t, err)
	require.Equal(t, 1, done.Added)
	require.True(t, s.find(t, c.ID).Timed)
	s.Advance(t, retention+time.Hour)
	s.sweep(t)
	c.Window = store.Window{}
	s.requireKeyRefused(t, c)
}

// The record of a timed key stays one, whatever is imported in its place: it raises the floor when it is dropped.
//
// CONTRACT T-6, F-4
func keyTimeImportedOverFreed(t *testing.T, s *fixture) {
	now := s.now(t)
	c := s.timed(store.Park, now, now.Add(-time.Hour))
	require.NoError(t, s.Store.End(s.ctx, s.win(t, c).Ticket, asFree))
	rec := store.Record{
		Ticket: store.Ticket{ID: c.ID, Owner: newOwner(), Fence: 1}, Scope: c.Scope, Realm: c.Realm, Method: c.Method,
		Route: c.Route, Recovery: c.Recovery, Stored: store.Completed, Attempts: 1, Answer: answerOf("paid"),
		CreatedAt: now, LeaseUntil: now, Deadline: now, ExpiresAt: now.Add(retention), PurgeAt: now.Add(retention),
	}
	done, err := s.Store.Import(s.ctx, []store.Record{rec})
	require.NoError(t, err)
	require.Equal(t, store.Imported{Replaced: 1}, done)
	require.True(t, s.find(t, c.ID).Timed)
	s.Advance(t, retention+time.Hour)
	s.sweep(t)
	c.Window = store.Window{}
	s.requireKeyRefused(t, c)
}
