package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var proposalChecks = []check{
	{"Proposal/Open", proposalOpen},
	{"Proposal/Refused", proposalRefused},
	{"Proposal/CarriedOut", proposalCarriedOut},
	{"Proposal/Withdrawn", proposalWithdrawn},
	{"Proposal/OtherFence", proposalOtherFence},
	{"Proposal/AtOnce", proposalsAtOnce},
	{"Proposal/WithdrawnMeanwhile", proposalWithdrawnMeanwhile},
	{"Proposal/Retention", proposalRetention},
	{"Proposal/Erased", proposalErased},
	{"Proposal/Cancelled", proposalCancelled},
}

var txProposalChecks = []check{
	{"Tx/Proposal", txProposal},
	{"Tx/ProposalKept", txProposalKept},
}

// proposalOf is a proposal of olga's about a record.
func proposalOf(r store.Record, token byte) store.Note {
	return store.Note{ID: r.ID, Token: [16]byte{token}, Who: "olga", Text: "seen at the provider", Fence: r.Fence,
		Decision: []byte{0xff, 0, token}}
}

// second is a settlement of otto's that carries a proposal of olga's out.
func second(r store.Record, token byte) store.Settlement {
	s := applied(r, "settled")
	s.Who, s.Proposal = "otto", [16]byte{token}
	return s
}

// propose proposes to settle a lost operation.
func (s *fixture) propose(t *testing.T, r store.Record, token byte) {
	t.Helper()
	require.NoError(t, s.proposals[0].Propose(s.ctx, proposalOf(r, token), store.Window{}))
}

// requireKinds checks the kinds of the notes of an operation on every instance, and returns the notes.
func (s *fixture) requireKinds(t *testing.T, id store.ID, want ...store.NoteKind) (notes []store.Note) {
	t.Helper()
	for _, st := range s.instances {
		all, err := st.Notes(s.ctx, []store.ID{id})
		require.NoError(t, err)
		notes = all[id]
		var kinds []store.NoteKind
		for _, n := range notes {
			kinds = append(kinds, n.Kind)
			require.False(t, n.At.IsZero())
		}
		require.Equal(t, want, kinds)
	}
	return notes
}

// A proposal changes nothing of the record. It is there once, whole, and alone.
//
// CONTRACT X-7
func proposalOpen(t *testing.T, s *fixture) {
	for _, r := range []store.Recovery{store.Park, store.Resume} {
		c, lost := s.lost(t, r)
		before := s.find(t, c.ID)
		for range 2 {
			s.propose(t, lost, 1)
		}
		for _, st := range s.proposals {
			require.ErrorIs(t, st.Propose(s.ctx, proposalOf(lost, 2), store.Window{}), store.ErrStale, "one is open")
		}
		requireSame(t, before, s.find(t, c.ID))
		s.requireState(t, store.Unknown, c)
		n := s.requireKinds(t, c.ID, store.OpenProposal)[0]
		want := proposalOf(lost, 1)
		want.Kind, want.At = store.OpenProposal, n.At
		require.Equal(t, want, n)
		require.WithinDuration(t, before.Now, n.At, 20*time.Second)
		require.NoError(t, s.Store.Annotate(s.ctx, noteOf(lost, 3, "a plain note")))
		history, err := s.Store.History(s.ctx, c.ID)
		require.NoError(t, err)
		require.Empty(t, history)
	}
}

// Only what could be settled now can be proposed to be settled.
//
// CONTRACT X-7, T-5
func proposalRefused(t *testing.T, s *fixture) {
	propose := func(r store.Record, w store.Window) error { return s.proposals[0].Propose(s.ctx, proposalOf(r, 9), w) }
	missing := store.Record{Ticket: store.Ticket{ID: s.command(store.Park).ID, Fence: 1}}
	require.ErrorIs(t, propose(missing, store.Window{}), store.ErrNotFound)
	_, done := s.done(t, "paid")
	running, parked := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Resume))
	require.NoError(t, s.Store.End(s.ctx, parked.Ticket, asUnknown))
	for name, r := range map[string]store.Record{"running": running, "completed": done, "parked, within its deadline": parked} {
		require.ErrorIs(t, propose(r, store.Window{}), store.ErrNotSettleable, name)
		s.requireKinds(t, r.ID)
	}
	halfDone := s.win(t, s.command(store.Resume))
	_, lost := s.lost(t, store.Park)
	require.ErrorIs(t, propose(halfDone, store.Window{}), store.ErrNotSettleable)
	ahead := lost
	ahead.Fence++
	require.ErrorIs(t, propose(ahead, store.Window{}), store.ErrStale)
	require.ErrorIs(t, propose(lost, store.Window{To: lost.Now.Add(-time.Hour)}), store.ErrClock)
	s.requireKinds(t, lost.ID)
	require.NoError(t, propose(lost, store.Window{}))
	_, err := s.Store.Settle(s.ctx, applied(lost, "settled"))
	require.NoError(t, err, "a store does not know which routes take two")
	require.ErrorIs(t, s.proposals[0].Propose(s.ctx, proposalOf(s.find(t, lost.ID), 1), store.Window{}), store.ErrNotSettleable)
}

// Another one carries it out, once. Whatever is refused changes nothing.
//
// CONTRACT X-7
func proposalCarriedOut(t *testing.T, s *fixture) {
	c, lost := s.lost(t, store.Park)
	_, others := s.lost(t, store.Park)
	s.propose(t, lost, 1)
	s.propose(t, others, 2)
	before := s.find(t, c.ID)
	own, late := second(lost, 1), second(lost, 1)
	own.Who = "olga"
	late.Window = store.Window{To: lost.Now.Add(-time.Hour)}
	for _, st := range s.instances {
		for name, d := range map[string]store.Settlement{
			"its own": own, "unknown": second(lost, 7), "another's": second(lost, 2),
		} {
			_, err := st.Settle(s.ctx, d)
			require.ErrorIs(t, err, store.ErrStale, name)
		}
		_, err := st.Settle(s.ctx, late)
		require.ErrorIs(t, err, store.ErrClock)
		requireSame(t, before, s.find(t, c.ID))
		s.requireKinds(t, c.ID, store.OpenProposal)
	}
	settled, err := s.instances[len(s.instances)-1].Settle(s.ctx, second(lost, 1))
	require.NoError(t, err)
	requireAnswer(t, answerOf("settled"), settled.Answer)
	requireSame(t, settled, s.find(t, c.ID))
	n := s.requireKinds(t, c.ID, store.CarriedOut)[0]
	require.Equal(t, "olga", n.Who)
	require.NotEmpty(t, n.Text)
	history, err := s.Store.History(s.ctx, c.ID)
	require.NoError(t, err)
	require.Len(t, history, 1)
	require.Equal(t, "otto", history[0].Who)
	_, err = s.Store.Settle(s.ctx, second(lost, 1))
	require.ErrorIs(t, err, store.ErrNotSettleable)
	require.ErrorIs(t, s.withdraw(lost, 1, 5), store.ErrStale, "what was carried out is never taken back")
	s.requireKinds(t, c.ID, store.CarriedOut)
	s.requireKinds(t, others.ID, store.OpenProposal)
}

func (s *fixture) withdraw(r store.Record, token, note byte) error {
	return s.proposals[len(s.proposals)-1].Withdraw(s.ctx, [16]byte{token}, store.Note{ID: r.ID, Token: [16]byte{note},
		Who: "otto", Text: "it was another charge", Fence: r.Fence})
}

// A withdrawn proposal is carried out by nobody. Who has withdrawn it is a row of its own.
//
// CONTRACT X-7
func proposalWithdrawn(t *testing.T, s *fixture) {
	c, lost := s.lost(t, store.Park)
	s.propose(t, lost, 1)
	require.ErrorIs(t, s.withdraw(lost, 7, 2), store.ErrStale)
	ahead := lost
	ahead.Fence++
	require.ErrorIs(t, s.withdraw(ahead, 1, 2), store.ErrStale)
	s.requireKinds(t, c.ID, store.OpenProposal)
	s.Advance(t, time.Minute)
	require.NoError(t, s.withdraw(lost, 1, 2))
	notes := s.requireKinds(t, c.ID, store.Withdrawn, store.WithdrawalNote)
	require.Equal(t, "olga", notes[0].Who)
	require.Equal(t, []string{"otto", "it was another charge"}, []string{notes[1].Who, notes[1].Text})
	require.True(t, notes[1].At.After(notes[0].At))
	require.Equal(t, lost.Fence, notes[1].Fence)
	require.ErrorIs(t, s.withdraw(lost, 1, 3), store.ErrStale)
	_, err := s.Store.Settle(s.ctx, second(lost, 1))
	require.ErrorIs(t, err, store.ErrStale)
	s.requireState(t, store.Unknown, c)

	s.Advance(t, time.Minute)
	s.propose(t, lost, 4)
	_, err = s.Store.Settle(s.ctx, second(lost, 4))
	require.NoError(t, err)
	s.requireKinds(t, c.ID, store.Withdrawn, store.WithdrawalNote, store.CarriedOut)
}

// A proposal about one attempt never settles a later one, and is not withdrawn any more.
//
// CONTRACT X-7
func proposalOtherFence(t *testing.T, s *fixture) {
	c, first := s.lost(t, store.Park)
	s.propose(t, first, 1)
	_, err := s.Store.Settle(s.ctx, notApplied(first))
	require.NoError(t, err)
	require.ErrorIs(t, s.withdraw(first, 1, 5), store.ErrStale, "the operation is over")
	again := s.win(t, repeat(c))
	s.Advance(t, 2*deadline)
	for _, d := range []store.Settlement{second(first, 1), second(again, 1)} {
		_, err = s.Store.Settle(s.ctx, d)
		require.ErrorIs(t, err, store.ErrStale)
	}
	require.ErrorIs(t, s.withdraw(first, 1, 5), store.ErrStale)
	s.requireState(t, store.Unknown, c)
	s.Advance(t, time.Minute)
	s.propose(t, again, 2)
	_, err = s.Store.Settle(s.ctx, second(again, 2))
	require.NoError(t, err)
	s.requireKinds(t, c.ID, store.OpenProposal, store.CarriedOut)
}

// Of many who propose, and of many who carry out, one does.
//
// CONTRACT X-7
func proposalsAtOnce(t *testing.T, s *fixture) {
	for range 3 {
		_, lost := s.lost(t, store.Park)
		var proposed, settled atomic.Int64
		var winner atomic.Int64
		atOnce(8, func(i int) {
			err := s.proposals[i%len(s.proposals)].Propose(s.ctx, proposalOf(lost, byte(i+1)), store.Window{})
			if err == nil {
				proposed.Add(1)
				winner.Store(int64(i + 1))
			} else {
				assert.ErrorIs(t, err, store.ErrStale)
			}
		})
		require.EqualValues(t, 1, proposed.Load(), "proposals")
		atOnce(8, func(i int) {
			d := second(lost, byte(winner.Load()))
			d.Who = fmt.Sprint("otto ", i)
			_, err := s.instances[i%len(s.instances)].Settle(s.ctx, d)
			switch {
			case err == nil:
				settled.Add(1)
			case !errors.Is(err, store.ErrStale):
				assert.ErrorIs(t, err, store.ErrNotSettleable)
			}
		})
		require.EqualValues(t, 1, settled.Load(), "settlements")
		s.requireKinds(t, lost.ID, store.CarriedOut)
	}
}

// Either it is carried out or withdrawn, and the other one is told.
//
// CONTRACT X-7
func proposalWithdrawnMeanwhile(t *testing.T, s *fixture) {
	for range 8 {
		c, lost := s.lost(t, store.Park)
		s.propose(t, lost, 1)
		var settleErr, withdrawErr error
		atOnce(2, func(i int) {
			if i == 0 {
				_, settleErr = s.Store.Settle(s.ctx, second(lost, 1))
			} else {
				withdrawErr = s.withdraw(lost, 1, 2)
			}
		})
		if settleErr == nil {
			require.ErrorIs(t, withdrawErr, store.ErrStale)
			s.requireState(t, store.Completed, c)
			s.requireKinds(t, c.ID, store.CarriedOut)
			continue
		}
		require.ErrorIs(t, settleErr, store.ErrStale)
		require.NoError(t, withdrawErr)
		s.requireState(t, store.Unknown, c)
		require.Len(t, s.notes(t, c.ID), 2)
	}
}

// requireBlank checks that of proposals only who and when are left.
func (s *fixture) requireBlank(t *testing.T, id store.ID, want ...store.NoteKind) {
	t.Helper()
	for _, n := range s.requireKinds(t, id, want...) {
		require.Empty(t, n.Text)
		require.Nil(t, n.Decision)
		require.NotEmpty(t, n.Who)
	}
}

// Reason and decision go with the answer. Who and when stay.
//
// CONTRACT T-3
func proposalRetention(t *testing.T, s *fixture) {
	_, open := s.lost(t, store.Park)
	_, done := s.lost(t, store.Park)
	_, silent := s.lost(t, store.Park)
	s.propose(t, open, 1)
	s.propose(t, done, 1)
	without := proposalOf(silent, 1)
	without.Text = ""
	require.NoError(t, s.proposals[0].Propose(s.ctx, without, store.Window{}))
	for _, r := range []store.Record{done, silent} {
		_, err := s.Store.Settle(s.ctx, second(r, 1))
		require.NoError(t, err)
	}
	s.sweep(t)
	require.NotNil(t, s.requireKinds(t, done.ID, store.CarriedOut)[0].Decision)
	s.Advance(t, retention+time.Minute)
	s.sweep(t)
	s.requireBlank(t, done.ID, store.CarriedOut)
	s.requireBlank(t, silent.ID, store.CarriedOut)
	require.NotNil(t, s.requireKinds(t, open.ID, store.OpenProposal)[0].Decision)
}

// CONTRACT T-3
func proposalErased(t *testing.T, s *fixture) {
	_, done := s.lost(t, store.Park)
	_, freed := s.lost(t, store.Park)
	for _, r := range []store.Record{done, freed} {
		n := proposalOf(r, 1)
		n.Text = ""
		require.NoError(t, s.proposals[0].Propose(s.ctx, n, store.Window{}))
	}
	_, err := s.Store.Settle(s.ctx, second(done, 1))
	require.NoError(t, err)
	_, err = s.Store.Settle(s.ctx, notApplied(freed))
	require.NoError(t, err)
	for _, want := range []int{2, 0} {
		erased, err := eraseAll(s.ctx, s.Store, done.Scope, 100)
		require.NoError(t, err)
		require.Equal(t, want, erased.Records)
	}
	s.requireBlank(t, done.ID, store.CarriedOut)
	s.requireBlank(t, freed.ID, store.OpenProposal)
}

func proposalCancelled(t *testing.T, s *fixture) {
	_, lost := s.lost(t, store.Park)
	s.propose(t, lost, 1)
	ctx := s.over()
	noSentinel(t, s.proposals[0].Propose(ctx, proposalOf(lost, 2), store.Window{}))
	noSentinel(t, s.proposals[0].Withdraw(ctx, [16]byte{1}, proposalOf(lost, 3)))
	_, err := s.Store.Settle(ctx, second(lost, 1))
	noSentinel(t, err)
	s.requireKinds(t, lost.ID, store.OpenProposal)
}

// What is done with a proposal commits with the attempt, or not at all.
//
// CONTRACT
func txProposal(t *testing.T, s *fixture) {
	for _, commit := range []bool{false, true} {
		_, proposed := s.lost(t, store.Park)
		_, withdrawn := s.lost(t, store.Park)
		carried, lost := s.lost(t, store.Park)
		s.propose(t, withdrawn, 1)
		s.propose(t, lost, 1)
		tx, _ := s.begin(t, s.command(store.Rollback))
		ctx := tx.Bind(s.ctx, nil)
		require.NoError(t, s.proposals[0].Propose(ctx, proposalOf(proposed, 1), store.Window{}))
		require.NoError(t, s.proposals[0].Withdraw(ctx, [16]byte{1}, proposalOf(withdrawn, 2)))
		_, err := s.Store.Settle(ctx, second(lost, 1))
		require.NoError(t, err)
		requireWrote(t, tx, true)
		if commit {
			require.NoError(t, conclude(s.ctx, tx, kept(answerOf("done")), false))
			s.requireKinds(t, proposed.ID, store.OpenProposal)
			require.Len(t, s.notes(t, withdrawn.ID), 2)
			s.requireKinds(t, lost.ID, store.CarriedOut)
			s.requireState(t, store.Completed, carried)
		} else {
			require.NoError(t, tx.Rollback())
			s.requireKinds(t, proposed.ID)
			s.requireKinds(t, withdrawn.ID, store.OpenProposal)
			s.requireKinds(t, lost.ID, store.OpenProposal)
			s.requireState(t, store.Unknown, carried)
		}
	}
}

// A settlement that is refused leaves the proposal open, although its attempt commits.
//
// CONTRACT X-7
func txProposalKept(t *testing.T, s *fixture) {
	_, lost := s.lost(t, store.Park)
	s.propose(t, lost, 1)
	tx, _ := s.begin(t, s.command(store.Rollback))
	late := second(lost, 1)
	late.Window = store.Window{To: lost.Now.Add(-time.Hour)}
	_, err := s.Store.Settle(tx.Bind(s.ctx, nil), late)
	require.ErrorIs(t, err, store.ErrClock)
	require.NoError(t, conclude(s.ctx, tx, kept(answerOf("done")), false))
	s.requireKinds(t, lost.ID, store.OpenProposal)
	_, err = s.Store.Settle(s.ctx, second(lost, 1))
	require.NoError(t, err)
}

func (s *fixture) notes(t *testing.T, id store.ID) []store.Note {
	t.Helper()
	all, err := s.Store.Notes(s.ctx, []store.ID{id})
	require.NoError(t, err)
	return all[id]
}
