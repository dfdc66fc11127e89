package core

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/auth19/idem/core/store"
)

// Begin is the interceptor's first half: it claims the record of the request that Admit let through, or answers from it.
// Exactly one of attempt and reply is set. Both are nil if the request needs no key, or if its route is in shadow.
//
// p is the principal that the request's context has when the interceptor runs. The reply is 401 without a principal
// (O-2), and 500 if the request did not pass Admit, or passed it with another principal.
func (m *Module) Begin(r *http.Request, pattern string, p Principal) (*Attempt, *Reply) {
	return m.newRequest(r, pattern).begin(r, p)
}

// begin claims for the request that the key guard has let through: for this one, or for the one that its context carries.
func (q *request) begin(r *http.Request, p Principal) (*Attempt, *Reply) {
	admitted := q
	if !q.admitted {
		var reply *Reply
		if admitted, reply = q.fromGuard(r, p); admitted == nil {
			return nil, reply
		}
	}
	if r.Context().Err() != nil {
		// The client is gone, and nothing has been claimed: the cheapest moment to stop.
		return nil, q.refuse(r, q.m.withRetry(NewProblem(CodeStoreUnavailable,
			"the request ended before its command was claimed")))
	}
	attempt, reply := q.m.claimTraced(r, admitted)
	if attempt != nil && q.admitted { // else the request that the guard has let through can read it
		q.giveBody(attempt.request)
	}
	return attempt, reply
}

// fromGuard returns the request of a key guard that is mounted before the interceptor. Without it there is a reply, or the
// request needs no claim.
func (q *request) fromGuard(r *http.Request, p Principal) (*request, *Reply) {
	m, admitted := q.m, requestFrom(r.Context())
	switch {
	case q.problem != nil:
		return nil, q.refuse(r, q.problem)
	case !q.guarded:
		return nil, nil
	case !m.cfg.Scoping.admits(p):
		return nil, q.unauthenticated(r, p)
	case admitted != nil && admitted.shadow, admitted == nil && q.shadow:
		m.watch(r, q.pattern, admitted, p)
		return nil, nil
	case q.inside:
		return nil, q.refuse(r, secondGuard())
	case admitted == nil || !admitted.principal.same(p):
		return nil, q.refuse(r, NewProblem(CodeMisconfigured, "the interceptor is mounted without the key guard before it"))
	}
	return admitted, nil
}

// claimTraced is claimOrAnswer within a trace, if there is a tracer. It ends with the attempt.
func (m *Module) claimTraced(r *http.Request, q *request) (attempt *Attempt, reply *Reply) {
	if m.tracer == nil {
		return m.claimOrAnswer(r, q)
	}
	ctx := traceStart(r.Context(), m.tracer, q.event(""))
	defer func() {
		if attempt == nil {
			traceEnd(ctx, m.tracer)
		}
	}()
	return m.claimOrAnswer(r.WithContext(ctx), q)
}

// claimOrAnswer claims the record of an admitted request, or answers from it.
func (m *Module) claimOrAnswer(r *http.Request, q *request) (*Attempt, *Reply) {
	for _, pass := range q.route.gates {
		if reply := pass(m, r, q); reply != nil {
			return nil, reply
		}
	}
	claim := store.Claim{
		ID: q.id, Owner: m.newOwner(), Scope: m.cfg.Scoping.PrincipalScope(q.principal),
		Realm: m.cfg.Scoping.realm(m.service, q.principal), Method: r.Method, Route: q.pattern,
		Recovery: q.route.Recovery, Hash: q.hash, Lease: q.route.Lease, Deadline: q.route.Deadline,
		Lean:        q.route.Review == nil,
		Traceparent: traceparent(r.Context(), m.tracer), Pause: q.route.ResumePause, Key: m.keyTime(q),
	}
	q.values = context.WithoutCancel(r.Context())
	q.claimant = store.ClientContext{Context: q.values, Client: r.Context()}
	wait := waiter{m: m, scope: claim.Scope, id: claim.ID, limit: q.route.Wait}
	defer wait.stop()
	for call := &q.call; ; call, claim.Key = new(lazyContext), m.keyTime(q) {
		claimedAt := time.Now()
		tx, claimed, err := m.claim(call.until(&q.claimant, claimedAt.Add(m.cfg.ClaimTimeout)), &claim)
		q.claiming += time.Since(claimedAt)
		if err != nil {
			m.claimFailed(r, q, err)
			return nil, m.refuseRepeat(r, q, m.unavailable(err))
		}
		if claimed.Won {
			attempt := m.newAttempt(r, q, &claimed.Record, tx, claimedAt)
			if attempt.isOneTooMany() {
				return nil, attempt.giveUp()
			}
			if reply, _ := attempt.readSteps(); reply != nil {
				return nil, reply
			}
			return attempt, nil
		}
		if q.isHashedBefore(&claimed) {
			q.hash, claim.Hash = claimed.Record.Hash, claimed.Record.Hash
			continue
		}
		if claimed.Record.Ownerless() { // the id is made of the principal and the key, and so proves whose it is
			m.adopt(r.Context(), q, claim)
		}
		q.found = claimed.Record.Traceparent
		problem := m.repeatProblem(r.Context(), q, &claimed)
		if problem == nil {
			return nil, m.replay(r, q, &claimed.Record)
		}
		if problem.Code != CodeInFlight || !wait.next(r.Context(), &q.waiting) {
			return nil, m.refuseRepeat(r, q, problem)
		}
	}
}

// isHashedBefore reports whether the claim was lost to a half-done operation of the same command, which a release with other
// rules has hashed. Only a claim by the record's rules continues it (H-4).
func (q *request) isHashedBefore(claimed *store.Claimed) bool {
	rec := &claimed.Record
	if claimed.Busy || rec.Recovery != Resume || rec.State() != store.Running || !rec.LeaseExpired() ||
		rec.Hash.Version == q.hash.Version {
		return false
	}
	same, err := q.sends(rec.Hash)
	return same && err == nil
}

func (m *Module) claimFailed(r *http.Request, q *request, err error) {
	if errors.Is(err, ErrClock) {
		m.tellClock(r.Context(), err)
		return
	}
	m.storeFailed(r.Context(), q.event(EventFailed), err)
}

// claim runs one claim, and ends ctx. Only ClaimTimeout ends ctx earlier. If the client goes away, the claim is not
// cancelled: a cancelled claim leaves more work behind than a finished one. tx is that of a Rollback or Resume attempt.
func (m *Module) claim(ctx *lazyContext, c *store.Claim) (tx store.Attempt, claimed store.Claimed, err error) {
	defer ctx.cancel(context.Canceled)
	c.Window = m.window()
	var left bool // something may be left of a claim whose handler will not run
	if c.Recovery == Park {
		claimed, err = m.cfg.Store.Claim(ctx, *c)
		left = err != nil && !store.LeavesNothing(err)
	} else {
		tx, claimed, err = m.cfg.Store.(store.Attempts).Begin(ctx, *c) // New has refused any other store
		left = err != nil && claimed.Record.Owner == c.Owner
	}
	switch {
	case err != nil || !claimed.Won:
	case c.Recovery == Rollback:
		m.noticeClock(ctx, claimed.Record.Now)
	case !c.Window.Has(claimed.Record.Now):
		// The store's clock is ahead. When the clock is corrected, the lease would last as long as the jump: until then the
		// operation could be neither continued nor settled, and a provider may forget its keys meanwhile (T-5).
		left, err = tx == nil || claimed.Record.Attempts > 1, ErrClock
		if tx != nil {
			_ = tx.Rollback()
		}
	}
	if left {
		m.giveBack(store.Ticket{ID: c.ID, Owner: c.Owner}) // without a fence: an operation that is continued is not freed
	}
	return tx, claimed, err
}

// giveBack releases a claim whose handler will not run: soon if the store answers, else in Run. Nobody waits for it, and
// only one goroutine does so, however many claims the store has failed.
func (m *Module) giveBack(lost store.Ticket) {
	m.orphans.add(lost)
	if m.orphans.tryStart() {
		go func() { _ = recovered(func() error { m.releaseAll(context.Background()); return nil }) }() // of the store
	}
}

func (m *Module) unavailable(err error) *Problem {
	detail := "the store of idempotency records does not answer; nothing was run"
	switch {
	case errors.Is(err, store.ErrFull):
		detail = "the store of idempotency records is full; nothing was run"
	case errors.Is(err, ErrClock):
		detail = "the clocks of this service and of its store are too far apart; nothing was run"
	case errors.Is(err, store.ErrCrowded):
		detail = "the store of idempotency records has more to do than it can; nothing was run"
	case errors.Is(err, store.ErrUnreadable):
		detail = "this instance cannot read what is recorded of the command; nothing was run"
	case errors.Is(err, store.ErrUnfit):
		detail = "the database of the store of idempotency records does not do what the store needs; nothing was run"
	}
	p := m.withRetry(NewProblem(CodeStoreUnavailable, detail))
	if crowded, ok := errors.AsType[*store.CrowdedError](err); ok {
		p.RetryAfter = max(p.RetryAfter, min(p.RetryAfter+crowded.After, mostRetryAfter))
	}
	return p
}

// mostRetryAfter is the longest Retry-After of a crowd: nobody knows how long it stays.
const mostRetryAfter = 30 * time.Second

// repeatProblem compares a repeat with the record that is there: command first, then state (contract M); of a free record
// neither counts. It returns nil if the record's answer may be replayed.
func (m *Module) repeatProblem(ctx context.Context, q *request, claimed *store.Claimed) *Problem {
	if claimed.Busy {
		return m.inFlight()
	}
	if claimed.KeyRefused {
		return m.keyRefused(q, claimed.Record.Now)
	}
	rec := m.judged(ctx, claimed.Record)
	if rec.State() == store.Free { // since the claim: its command is over, and the next claim takes it
		if !m.window().Has(claimed.Record.Now) {
			return m.unavailable(ErrClock)
		}
		return m.inFlight()
	}
	if rec.Unread() == store.Unreadable { // as H-4: nothing is told of it
		m.storeFailed(ctx, q.event(EventFailed), store.ErrUnreadable)
		return m.unavailable(store.ErrUnreadable)
	}
	same, err := q.sends(rec.Hash)
	if err != nil { // H-4: made by a newer release
		return m.withRetry(NewProblem(CodeStoreUnavailable, "this instance cannot compare the command with the recorded "+
			"one; nothing was run"))
	}
	if !same {
		return NewProblem(CodeKeyReused, "this key was used for another command; use a new key for a new command")
	}
	switch rec.State() {
	case store.Completed:
		if !q.route.reviewed(ctx, q.principal, &rec) {
			return NewProblem(CodeForbidden, "the caller may not see the answer to this command (any more)")
		}
		if rec.Answer.Partial || rec.Unread() == store.Lost {
			p := NewProblem(CodeResponseNotReplayable, "the command was carried out; its answer is not kept, or cannot be read any "+
				"more")
			p.Answered = new(rec.Answer) // a copy: rec itself stays off the heap
			return p
		}
		return nil
	case store.Unknown:
		return outcomeUnknown(rec.ID)
	case store.Expired:
		p := NewProblem(CodeKeyExpired, "the command was carried out; its answer is not kept any more")
		p.Outcome = rec.OutcomeClass()
		return p
	default:
		return m.inFlightUntil(&rec, q.route.ResumePause)
	}
}

// inFlightUntil is inFlight, for a repeat that has met a record. A Resume operation may rest between two attempts.
func (m *Module) inFlightUntil(rec *Record, pause time.Duration) *Problem {
	p := m.inFlight()
	if rest := rec.NextAttempt(pause).Sub(rec.Now); rec.Recovery == Resume && rec.LeaseExpired() && rest > 0 {
		p.Detail = "the last attempt has failed, and the operation waits for its next one; repeat then"
		p.RetryAfter = max(p.RetryAfter, rest)
	}
	return p
}

// sends reports whether the request's command has the given hash, by the rules that that hash was made by (H-4). An
// imported record has none, and matches (see UnknownHash).
func (q *request) sends(recorded store.CommandHash) (bool, error) {
	hash := q.hash
	if recorded.Version == store.UnknownHash {
		return true, nil
	}
	if recorded.Version != hash.Version {
		var err error
		if hash, err = q.command.Hash(recorded.Version); err != nil {
			return false, err
		}
	}
	return hash == recorded, nil
}

func (m *Module) inFlight() *Problem {
	return m.withRetry(NewProblem(CodeInFlight, "the first request with this key is still running; repeat later"))
}

func outcomeUnknown(id ID) *Problem {
	p := NewProblem(CodeOutcomeUnknown, "the command may have been carried out; ask for the operation, and do not send it "+
		"again with a new key")
	p.Operation, p.unknown = id.String(), true
	return p
}

// refuseRepeat renders a problem of a request whose key has been read.
func (m *Module) refuseRepeat(r *http.Request, q *request, p *Problem) *Reply {
	switch p.Code {
	case CodeStoreUnavailable, CodeSuspectedDuplicate, CodeTooManyOpen, CodeKeyInvalid: // there is no operation, or another one
	default:
		p.Operation = q.id.String()
	}
	m.observe(r.Context(), q.refused(p.Code))
	reply := m.refuse(r, p)
	reply.keyName, reply.key, reply.within = m.cfg.Header, q.echo, q.route.Deadline
	return reply
}

// replay is the recorded answer, byte for byte (M-3).
func (m *Module) replay(r *http.Request, q *request, rec *Record) *Reply {
	e := q.timed(EventReplayed)
	e.Recovery, e.Fence, e.Status, e.Traceparent = rec.Recovery, rec.Fence, rec.Answer.Status, rec.Traceparent
	m.observe(r.Context(), e)
	return &Reply{
		Status: rec.Answer.Status, Header: rec.Answer.Header, Body: rec.Answer.Body,
		keyName: m.cfg.Header, key: q.echo, result: resultReused, replay: true, within: q.route.Deadline,
	}
}

// adopt says of a marked operation whose it is. The repeat is answered in any case, and the next one tries it again.
func (m *Module) adopt(ctx context.Context, q *request, c store.Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.ClaimTimeout)
	defer cancel()
	if err := m.operations.Adopt(ctx, c); err != nil {
		m.storeFailed(ctx, q.event(EventFailed), err)
	}
}

// newOwner returns the owner of a new attempt of this instance.
func (m *Module) newOwner() store.Owner {
	var o store.Owner
	rand.Read(o[copy(o[:], m.instance[:]):]) // never fails since Go 1.24
	return o
}

// Instance stands for this module in the history of attempts, until its process ends: see [store.AttemptEnd].
func (m *Module) Instance() store.Instance { return m.instance }
