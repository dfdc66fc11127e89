package gormstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// trial is the self-test of a store: its money path, in one transaction that is rolled back (F-8).
type trial struct {
	*Store
	t *txn.Tx
}

func (s *Store) selfTest(ctx context.Context, t *txn.Tx) error {
	try := trial{s, t}
	for _, run := range []func(context.Context) error{try.rollback, try.resume, try.park, try.takeover} {
		if err := run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin stands for the time at which a record was made, in what is compared with it.
var begin = time.Unix(0, 0)

// trialAnswer has bytes and characters that a conversion would change.
func trialAnswer() *store.Completion {
	return &store.Completion{
		Answer: store.Answer{
			Status: http.StatusCreated, Header: http.Header{"Location": {"/self-test/\xe9\u20ac"}},
			Body: []byte("\x00\xff'\\self-test"),
		},
		Retention: store.DefaultRetention, Tombstone: store.DefaultTombstone,
	}
}

func trialClaim(r store.Recovery) store.Claim {
	c := store.Claim{
		Method: http.MethodPost, Route: "idem self-test", Recovery: r, Hash: store.CommandHash{Version: 1},
		Lease: store.DefaultLease, Deadline: store.DefaultDeadline,
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	for _, random := range [][]byte{c.ID[:], c.Owner[:], c.Scope[:], c.Realm[:], c.Hash.Sum[:]} {
		_, _ = rand.Read(random) // never fails
	}
	return c
}

// rollback is an attempt of one segment, with a timed key.
func (p trial) rollback(ctx context.Context) error {
	c := trialClaim(store.Rollback)
	c.Key = store.KeyTime{Made: time.Now(), Timed: true}
	a, err := p.begin(ctx, c)
	if err == nil {
		err = p.seal(ctx, a, store.Seal{Answer: trialAnswer()})
	}
	return p.completed(ctx, err, recordAnswer, c)
}

// resume is one of three, with a call and a step.
func (p trial) resume(ctx context.Context) error {
	c := trialClaim(store.Resume)
	a, err := p.begin(ctx, c)
	if err != nil {
		return err
	}
	call := store.StepRecord{Name: "call", Kind: store.ProviderStep}
	step := store.StepRecord{Name: "step", Kind: store.DatabaseStep, Fence: 1, Result: []byte("\x00\xfe"), Finished: true}
	if err := p.seal(ctx, a, store.Seal{Start: &call}); err != nil {
		return err
	}
	call.Fence = 1
	running := wonRecord(c, 1, begin)
	if err := p.reads(ctx, recordRunning, running, call); err != nil {
		return err
	}
	call.Result, call.Derived, call.Finished = []byte("\x00\xff"), []store.DerivedKey{{1}, {2}}, true
	if err := p.seal(ctx, a, store.Seal{Steps: []store.StepRecord{call}}); err != nil {
		return err
	}
	if err := p.reads(ctx, sealRunning, running, call); err != nil {
		return err
	}
	err = p.seal(ctx, a, store.Seal{Steps: []store.StepRecord{step}, Answer: trialAnswer()})
	return p.completed(ctx, err, sealAnswer, c, call, step)
}

// park is an attempt without a segment.
func (p trial) park(ctx context.Context) error {
	c := trialClaim(store.Park)
	claim := func() (store.Claimed, error) { return p.claimAlone(ctx, p.t.Conn.SQL, c, false) }
	ticket, err := p.claimed(ctx, insertRecord, c, 1, claim)
	if err != nil {
		return err
	}
	if err := p.changed(ctx, renew, ticket, c.Lease.Microseconds()); err != nil {
		return err
	}
	trial := trialAnswer()
	answer, err := p.sealer.answer(ctx, time.Time{}, c.ID, trial.Answer)
	if err == nil {
		err = p.changed(ctx, complete, ticket, completionArgs(answer, *trial)...)
	}
	return p.completed(ctx, err, complete, c)
}

// takeover is an attempt on a key that was given free.
func (p trial) takeover(ctx context.Context) error {
	c := trialClaim(store.Resume)
	claim := func() (store.Claimed, error) { return p.claim(ctx, p.t.Conn.SQL, c) }
	ticket, err := p.claimed(ctx, insertRecord, c, 1, claim)
	if err == nil {
		err = p.changed(ctx, release, ticket, keepFree.Microseconds())
	}
	if err != nil {
		return err
	}
	c.Owner[0]++
	ends := store.Record{}.WithEnd(store.AttemptEnd{Fence: 2, At: begin})
	if ticket, err = p.claimed(ctx, takeOver, c, 2, claim); err == nil {
		err = p.changed(ctx, yield, ticket, ends, int64(0))
	}
	if err == nil {
		err = p.changed(ctx, park, ticket, ends)
	}
	if err != nil {
		return err
	}
	unknown := wonRecord(c, 2, begin)
	unknown.Stored, unknown.Ends = store.Unknown, ends
	return p.reads(ctx, park, unknown)
}

// begin begins an attempt in the transaction.
func (p trial) begin(ctx context.Context, c store.Claim) (*attempt, error) {
	own, l := p.t.Conn.SQL, &firstLook{attempt: attempt{store: p.Store, claim: c, fence: 1, last: p.t, isOpen: true}}
	l.lock = true // or what the database says
	calls, err := l.calls(ctx, own)
	if err == nil {
		err = txn.Ask(ctx, own, calls...)
	}
	if err != nil {
		return nil, err
	}
	claimed, err := l.decide(ctx)
	if err == nil && !claimed.Won {
		err = txn.Altered(lockFirst, "the lock")
	}
	return &l.attempt, err
}

// seal sends what a seal of the attempt sends, but for what ends the transaction.
func (p trial) seal(ctx context.Context, a *attempt, seal store.Seal) error {
	e := &a.first
	if a.sealed {
		e = &segment{attempt: a}
	}
	e.seal, a.sealed = &seal, true
	err := e.sealUp(ctx)
	var last txn.FinalCalls
	if err == nil {
		last, err = e.last(ctx, p.t)
	}
	if err == nil {
		err = txn.Ask(ctx, p.t.Conn.SQL, slices.DeleteFunc(last.Within, func(c txn.Call) bool { return c.Name == "" })...)
	}
	return err
}

// claimed is the ticket of a claim, which must win.
func (p trial) claimed(
	ctx context.Context, name txn.Statement, c store.Claim, fence int64, claim func() (store.Claimed, error),
) (store.Ticket, error) {
	claimed, err := claim()
	if err != nil || !claimed.Won {
		return store.Ticket{}, altered(err, name)
	}
	return claimed.Record.Ticket, p.reads(ctx, name, wonRecord(c, fence, begin))
}

// changed runs a statement that the owner of a record sends, and which must change it.
func (p trial) changed(ctx context.Context, name txn.Statement, t store.Ticket, args ...any) error {
	changed, err := p.change(ctx, p.t.Conn.SQL, name, append(ownedBy(t), args...))
	if err == nil && changed {
		return nil
	}
	return altered(err, name)
}

// altered is err, or what it means that a statement has written nothing.
func altered(err error, name txn.Statement) error {
	for _, nothing := range []error{nil, store.ErrNotFound, store.ErrStale, store.ErrClock, txn.ErrRace} {
		if errors.Is(err, nothing) {
			return txn.Altered(name, "the record")
		}
	}
	return err
}

// completed reads the record of an attempt that has ended.
func (p trial) completed(
	ctx context.Context, err error, name txn.Statement, c store.Claim, steps ...store.StepRecord,
) error {
	if err != nil {
		return altered(err, name)
	}
	want := wonRecord(c, 1, begin)
	a := trialAnswer()
	want.Stored, want.Answer = store.Completed, a.Answer
	want.ExpiresAt, want.PurgeAt = begin.Add(a.Retention), begin.Add(a.Retention+a.Tombstone)
	return p.reads(ctx, name, want, steps...)
}

// reads reads a record and its steps, and compares them with what the statement should have written.
func (p trial) reads(ctx context.Context, name txn.Statement, want store.Record, steps ...store.StepRecord) error {
	rec, err := p.find(ctx, p.t.Conn.SQL, want.ID)
	if err != nil {
		return altered(err, name)
	}
	want.Now = begin.Add(rec.Now.Sub(rec.CreatedAt)) // which is not judged
	if want.Stored != store.Running {                // of others nobody asks for them
		want.LeaseUntil, want.Deadline = begin.Add(rec.LeaseUntil.Sub(rec.CreatedAt)), begin.Add(rec.Deadline.Sub(rec.CreatedAt))
	}
	if field := differs(rec, want); field != "" {
		return txn.Altered(name, field)
	}
	there, err := p.steps(ctx, p.t.Conn.SQL, want.ID)
	if err != nil || len(steps) == 0 {
		return err
	}
	for i, step := range steps {
		if i >= len(there) || there[i].Name != step.Name || there[i].Kind != step.Kind || there[i].Fence != step.Fence ||
			there[i].Finished != step.Finished || !bytes.Equal(there[i].Result, step.Result) ||
			!reflect.DeepEqual(there[i].Derived, step.Derived) || there[i].Now.Sub(there[i].StartedAt).Abs() > time.Minute {
			return txn.Altered(putSteps, "the step")
		}
	}
	return nil
}

// differs names a field of a record that is not as it was written; "" if there is none. Times are compared with that of the
// record's creation, which is begin in want.
func differs(got, want store.Record) string {
	is, should := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range is.NumField() {
		a, b := is.Field(i).Interface(), should.Field(i).Interface()
		same := reflect.DeepEqual(a, b)
		if at, ok := a.(time.Time); ok && !at.IsZero() {
			same = (at.Sub(got.CreatedAt) - b.(time.Time).Sub(begin)).Abs() < time.Minute
		}
		if !same {
			return is.Type().Field(i).Name
		}
	}
	return ""
}
