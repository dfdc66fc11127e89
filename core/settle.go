package core

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/auth19/idem/core/internal/text"
	"github.com/auth19/idem/core/store"
)

// Decision settles an unknown operation: that of Config.Reconcile, or of an operator, see package operations.
type Decision struct {
	// Applied: the command took effect, and repeats get Answer from now on. Not applied: the key is free, and a repeat runs
	// the command again. Settle as not applied only if the provider refuses or deduplicates the derived key from now on.
	// Otherwise a charge that is only late would be made twice.
	Applied bool
	// Answer is required when Applied: a status of 200 to 499, headers, and a body. Only headers that are recorded of every
	// answer are kept.
	Answer *Answer
	Who    string // who decides; required, kept for good
	Why    string // the reason; required, kept for good
	// Undone says what has undone the finished steps of a Resume operation, a refund for instance. It is required if Applied
	// is false and steps have finished, and kept for good.
	Undone string
	// Fence is the fence of the attempt that the decision is about. If the key has had another attempt or settlement since
	// then, it is ErrStale. With 0 the decision is about the last attempt, whichever it is; that of Config.Reconcile is about
	// the attempt that it was asked about.
	Fence int64
}

// Check says what of a decision is missing or too much. verb is what it is for: the error begins with it.
func (d *Decision) Check(verb string) error {
	var why string
	switch {
	case strings.TrimSpace(d.Who) == "":
		why = "Who is required: who decides"
	case strings.TrimSpace(d.Why) == "":
		why = "Why is required: the reason, for the history"
	case !text.Storable(d.Who), !text.Storable(d.Why), !text.Storable(d.Undone):
		why = "Who, Why and Undone are kept as text: valid UTF-8, no NUL"
	case d.Applied && d.Undone != "":
		why = "Undone is for an operation that was not applied; leave it out"
	case d.Applied && (d.Answer == nil || d.Answer.Status < 200 || d.Answer.Status > 499):
		why = "Answer is required when Applied, with a status of 200 to 499"
	case !d.Applied && d.Answer != nil:
		why = "an operation that was not applied has no Answer; leave it out"
	default:
		return nil
	}
	return errors.New("idem: " + verb + ": " + why)
}

// Outcome is the word for what a decision says: "applied" or "not_applied".
func (d *Decision) Outcome() string {
	if d.Applied {
		return "applied"
	}
	return "not_applied"
}

// settle settles what rec shows as d says, which was checked. The store compares fence, lease and deadline anew. proposal is
// the token of the one that it carries out, and proposer who has made it.
func (m *Module) settle(ctx context.Context, rec Record, d Decision, proposal [16]byte, proposer string) (Record, error) {
	if err := m.mayBeUndone(ctx, rec, d); err != nil {
		return Record{}, err
	}
	storeCtx, cancel := context.WithTimeout(ctx, m.cfg.ClaimTimeout)
	defer cancel()
	s := store.Settlement{ID: rec.ID, Fence: rec.Fence, Window: m.window(), Who: d.Who, Why: d.Why, Undone: d.Undone,
		Proposal: proposal}
	if d.Applied {
		answer := *d.Answer
		answer.Header = m.recordedHeader(answer.Header)
		kept, _ := m.policyOf(rec.Method, rec.Route)
		s.Answer = &store.Completion{Answer: answer, Retention: kept.Retention, Tombstone: m.tombstone(kept, rec.Timed)}
	}
	settled, err := m.operations.Settle(storeCtx, s)
	if errors.Is(err, ErrClock) {
		m.tellClock(ctx, err)
	}
	if err == nil {
		e := Event{Kind: EventSettled, Operation: rec.ID, Method: rec.Method, Route: rec.Route, Recovery: rec.Recovery,
			Fence: settled.Fence, Status: settled.Answer.Status, Who: d.Who, Why: d.Why, Outcome: d.Outcome(), Proposer: proposer}
		if d.Applied {
			e.Digest = fmt.Sprintf("%x", sha256.Sum256(d.Answer.Body))
		}
		m.observe(ctx, e)
	}
	return settled, err
}

// mayBeUndone returns store.ErrStepsFinished for a decision that says not applied where steps have finished, and not what
// has undone them. None can finish any more.
func (m *Module) mayBeUndone(ctx context.Context, rec Record, d Decision) error {
	switch {
	case d.Applied || strings.TrimSpace(d.Undone) != "":
		return nil
	case rec.Recovery == Resume && rec.State() != store.Unknown:
		return store.ErrNotSettleable
	}
	steps, err := m.stepsOf(ctx, rec)
	if err == nil && slices.ContainsFunc(steps, func(s store.StepRecord) bool { return s.Finished }) {
		err = store.ErrStepsFinished
	}
	return err
}

// stepsOf reads the steps of an operation. They may be many, or large: it may take as long as an attempt.
func (m *Module) stepsOf(ctx context.Context, rec Record) ([]store.StepRecord, error) {
	st, ok := m.cfg.Store.(store.Attempts)
	if rec.Recovery != Resume || !ok {
		return nil, nil
	}
	policy, _ := m.policyOf(rec.Method, rec.Route)
	ctx, cancel := context.WithTimeout(ctx, policy.Deadline)
	defer cancel()
	return st.Steps(ctx, rec.ID)
}
