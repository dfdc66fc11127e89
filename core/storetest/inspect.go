package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var inspectChecks = []check{
	{"Inspect/OpenSteps", inspectOpenSteps},
	{"Inspect/Near", inspectNear},
	{"Inspect/LastSettled", inspectLastSettled},
	{"Inspect/Flow", inspectFlow},
	{"Inspect/LastAnswered", inspectLastAnswered},
	{"Inspect/History", inspectHistory},
	{"Inspect/Cancelled", inspectCancelled},
}

// Every open operation is there, running or not, with the calls that it has begun, finished or not.
//
// CONTRACT S-5
func inspectOpenSteps(t *testing.T, s *fixture) {
	open := func(within []byte, limit int) []store.OpenStep {
		steps, err := s.instances[0].OpenSteps(s.ctx, within, limit)
		require.NoError(t, err)
		return steps
	}
	require.Empty(t, open(nil, 10))
	running, lost := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park))
	require.NoError(t, s.Store.End(s.ctx, lost.Ticket, asUnknown))
	s.done(t, "paid")
	require.ElementsMatch(t, []store.OpenStep{{ID: running.ID}, {ID: lost.ID}}, open(nil, 10))
	require.Len(t, open(nil, 1), 1)
	require.Len(t, open(lost.Realm[:], 10), 2)
	require.Empty(t, open(make([]byte, 8), 10))
	if s.attempts == nil {
		return
	}
	resume := s.resume(t, s.command(store.Resume))
	s.complete(t, running, "paid")
	for _, name := range []string{"charge", "refund"} {
		s.start(t, resume, store.StepRecord{Name: name, Kind: store.ProviderStep})
	}
	booked := s.resume(t, s.command(store.Resume))
	s.write(t, booked)
	s.seal(t, booked, store.Seal{Steps: []store.StepRecord{rows("book")}})
	require.ElementsMatch(t, []store.OpenStep{
		{ID: lost.ID}, {ID: resume.ID, Step: "charge"}, {ID: resume.ID, Step: "refund"}, {ID: booked.ID},
	}, open(nil, 10))
}

// By the first digits, and by the last ones.
//
// CONTRACT S-5
func inspectNear(t *testing.T, s *fixture) {
	var ids []store.ID
	for i := range 6 {
		c := s.command(store.Park)
		c.ID = store.ID{0: 7, 1: byte(i), 31: byte(i % 2)}
		if i == 5 {
			c.Realm[0]++
		}
		ids = append(ids, s.win(t, c).ID)
	}
	realm := s.command(store.Park).Realm
	for name, tt := range map[string]struct {
		n      store.Near
		within []byte
		limit  int
		want   []store.ID
	}{
		"all":       {store.Near{Last: store.ID{0: 8}}, nil, 10, ids},
		"its realm": {store.Near{Last: store.ID{0: 8}}, realm[:], 10, ids[:5]},
		"limit":     {store.Near{Last: store.ID{0: 8}}, nil, 2, ids[:2]},
		"the ends":  {store.Near{First: ids[1], Last: ids[3]}, nil, 10, ids[1:4]},
		"end":       {store.Near{Last: store.ID{0: 8}, End: []byte{0, 1}}, nil, 10, []store.ID{ids[1], ids[3], ids[5]}},
		"whole end": {store.Near{Last: store.ID{0: 8}, End: ids[2][:]}, nil, 10, ids[2:3]},
		"none":      {store.Near{First: store.ID{0: 8}, Last: store.ID{0: 9}}, nil, 10, nil},
	} {
		found, err := s.instances[0].Near(s.ctx, tt.within, tt.n, tt.limit)
		require.NoError(t, err)
		require.Equal(t, tt.want, append([]store.ID(nil), found...), name)
	}
}

// The history outlives the record and the life of the key.
//
// CONTRACT
func inspectHistory(t *testing.T, s *fixture) {
	history := func(id store.ID) []store.SettlementRecord {
		var first []store.SettlementRecord
		for i, store := range s.instances {
			found, err := store.History(s.ctx, id)
			require.NoError(t, err)
			if i > 0 {
				require.Equal(t, first, found)
			}
			first = found
		}
		return first
	}
	c, won := s.lost(t, store.Park)
	require.Empty(t, history(c.ID))
	undone := notApplied(won)
	undone.Undone = "a refund"
	freed, err := s.Store.Settle(s.ctx, undone)
	require.NoError(t, err)
	s.Advance(t, time.Minute)
	again := s.win(t, repeat(c))
	require.NoError(t, s.Store.End(s.ctx, again.Ticket, asUnknown))
	s.Advance(t, 2*deadline)
	done, err := s.Store.Settle(s.ctx, applied(again, "paid"))
	require.NoError(t, err)

	found := history(c.ID)
	require.Len(t, found, 2)
	require.True(t, found[0].At.Before(found[1].At), "oldest first")
	require.WithinDuration(t, done.Now, found[1].At, lease)
	for i := range found {
		found[i].At = time.Time{}
	}
	require.Equal(t, []store.SettlementRecord{
		{Who: "operator", Why: "refused by the provider", Undone: "a refund", BeforeFence: won.Fence,
			BeforeState: store.Unknown, BeforeStored: store.Running, AfterFence: freed.Fence, AfterState: store.Free},
		{Who: "operator", Why: "seen at the provider", BeforeFence: again.Fence, BeforeState: store.Unknown,
			BeforeStored: store.Unknown,
			AfterFence:   done.Fence, AfterState: store.Completed, AfterStatus: answerOf("").Status},
	}, found)

	s.Advance(t, forever)
	s.sweep(t)
	s.requireGoneOrFree(t, c.ID)
	require.Len(t, history(c.ID), 2)
	require.Empty(t, history(s.command(store.Park).ID))
}

func inspectCancelled(t *testing.T, s *fixture) {
	ctx := s.over()
	_, err := s.instances[0].OpenSteps(ctx, nil, 1)
	noSentinel(t, err)
	_, err = s.instances[0].Near(ctx, nil, store.Near{}, 1)
	noSentinel(t, err)
	_, err = s.instances[0].History(ctx, store.ID{1})
	noSentinel(t, err)
	_, err = s.instances[0].Flow(ctx, nil, 1)
	noSentinel(t, err)
}

// The last settlements, the newest first: of a realm, by somebody, and no more than the limit.
//
// CONTRACT S-5, X-7
func inspectLastSettled(t *testing.T, s *fixture) {
	last := func(within []byte, by string, limit int) (found []store.SettledOperation) {
		for i, store := range s.instances {
			all, err := store.LastSettled(s.ctx, within, by, limit)
			require.NoError(t, err)
			if i > 0 {
				require.Len(t, all, len(found))
			}
			found = all
		}
		return found
	}
	require.Empty(t, last(nil, "", 10))
	var won []store.Record
	for i := range 3 {
		c := s.command(store.Park)
		c.Realm[0] = byte(i)
		won = append(won, s.win(t, c))
	}
	s.Advance(t, 2*deadline)
	for i, r := range won {
		d := notApplied(r)
		if i == 1 {
			d = applied(r, "paid")
			d.Who = "somebody else"
		}
		_, err := s.Store.Settle(s.ctx, d)
		require.NoError(t, err)
		s.Advance(t, time.Second)
	}
	ids := func(found []store.SettledOperation) (ids []store.ID) {
		for _, f := range found {
			ids = append(ids, f.ID)
		}
		return ids
	}
	all := last(nil, "", 10)
	require.Equal(t, []store.ID{won[2].ID, won[1].ID, won[0].ID}, ids(all))
	require.Equal(t, []store.ID{won[2].ID, won[1].ID}, ids(last(nil, "", 2)))
	require.Equal(t, []store.ID{won[1].ID}, ids(last(nil, "somebody else", 10)))
	require.Equal(t, []store.ID{won[0].ID}, ids(last([]byte{0}, "", 10)))
	require.Equal(t, won[1].Route, all[1].Route)
	require.Equal(t, won[1].Method, all[1].Method)
	history, err := s.instances[0].History(s.ctx, won[1].ID)
	require.NoError(t, err)
	require.Equal(t, []store.SettlementRecord{all[1].SettlementRecord}, history)
}

// The last success of a route, and of its realm.
//
// CONTRACT S-5
func inspectLastAnswered(t *testing.T, s *fixture) {
	c := s.command(store.Park)
	last := func(within []byte) string {
		rec, err := s.instances[0].LastAnswered(s.ctx, within, c.Method, c.Route)
		if err != nil {
			require.ErrorIs(t, err, store.ErrNotFound)
			return ""
		}
		return string(rec.Answer.Body)
	}
	require.Empty(t, last(nil))
	answer := func(c store.Claim, a store.Answer) {
		won := s.win(t, c)
		require.NoError(t, s.Store.End(s.ctx, won.Ticket, answered(kept(a))))
		s.Advance(t, time.Minute)
	}
	first := s.command(store.Park)
	first.Realm[0]++
	answer(first, answerOf("another realm"))
	answer(s.command(store.Park), answerOf("first"))
	answer(s.command(store.Park), answerOf("second"))
	refused, partial := answerOf("refused"), answerOf("partial")
	other, put := otherCommand(s.command(store.Park)), s.command(store.Park)
	refused.Status, partial.Partial, put.Method = 402, true, other.Method
	answer(s.command(store.Park), refused)
	answer(s.command(store.Park), partial)
	answer(other, answerOf("another route"))
	answer(put, answerOf("another method"))
	s.win(t, s.command(store.Park))
	require.Equal(t, "second", last(nil))
	require.Equal(t, "second", last(c.Realm[:]))
	require.Equal(t, "another realm", last(first.Realm[:]))
	s.Advance(t, retention)
	require.Empty(t, last(make([]byte, 24)))
}

// Hour by hour: what came and needs somebody, or needed it, and what was settled. What is at work, or was answered, counts
// as neither; nor does it when one is given up.
//
// CONTRACT S-5, X-7
func inspectFlow(t *testing.T, s *fixture) {
	flow := func(within []byte, want ...store.Hour) {
		t.Helper()
		for _, st := range s.instances {
			hours, err := st.Flow(s.ctx, within, len(want))
			require.NoError(t, err)
			require.Equal(t, want, hours)
		}
	}
	flow(nil, make([]store.Hour, 3)...)
	first, second := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park))
	half := s.win(t, s.command(store.Resume))
	s.Advance(t, 70*time.Minute)
	flow(nil, store.Hour{}, store.Hour{Came: 3}, store.Hour{})
	c := s.command(store.Park)
	c.Realm[0]++
	others := s.win(t, c)
	s.Advance(t, 2*deadline)
	s.done(t, "paid")
	s.win(t, s.command(store.Park))
	flow(nil, store.Hour{Came: 1}, store.Hour{Came: 3})
	_, err := s.Store.Settle(s.ctx, notApplied(first))
	require.NoError(t, err)
	_, err = s.Store.Settle(s.ctx, applied(others, "paid"))
	require.NoError(t, err)
	flow(nil, store.Hour{Came: 1, Settled: 2}, store.Hour{Came: 3})
	flow(first.Realm[:], store.Hour{Settled: 1}, store.Hour{Came: 3})
	flow(others.Realm[:], store.Hour{Came: 1, Settled: 1}, store.Hour{})
	flow(make([]byte, 8), store.Hour{}, store.Hour{})
	s.complete(t, second, "late")
	flow(first.Realm[:], store.Hour{Settled: 1}, store.Hour{Came: 2})
	_, err = s.Store.Intervene(s.ctx, store.Intervention{ID: half.ID, Fence: half.Fence, GiveUp: true, Who: "w", Why: "y"})
	require.NoError(t, err)
	s.Advance(t, time.Hour)
	flow(first.Realm[:], store.Hour{}, store.Hour{Came: 1, Settled: 1}, store.Hour{Came: 2})
}
