package core

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core/store"
)

// endTransaction ends a Rollback attempt, and a Resume attempt before its first commit.
func (a *Attempt) endTransaction(v verdict, inTime bool, steps progress) *Reply {
	c := &a.capture
	tooLarge := c.overflow && a.steps == nil // Resume records it without its body
	sick := steps.seal != nil && !errors.Is(steps.seal, ErrAborted)
	undone := !inTime || tooLarge || sick || v == free || v == fail || v == withhold
	unwritten := !undone && v == record && a.carriedNoWrite()
	if undone || unwritten && a.route.Unwritten == UnwrittenRefused {
		err := a.tx.Rollback()
		if errors.Is(err, store.ErrEnded) {
			return a.endedByHandler(err)
		}
		if errors.Is(err, ErrUnconfirmed) { // another attempt may have committed (M-6)
			return a.unconfirmed(err)
		}
		err = cmp.Or(err, steps.seal)
		a.tellStatement(err)
		a.observe(Event{Kind: EventRolledBack, Status: c.finalStatus(), Err: cmp.Or(err, a.cutShort())})
		if errors.Is(err, ErrStale) {
			return a.asRepeat()
		}
		if !inTime {
			a.observe(Event{Kind: EventOverdue, Status: c.finalStatus()})
		}
		switch {
		case errors.Is(err, ErrRetryable):
			return a.refuse(a.m.withRetry(NewProblem(CodeRolledBack, "the database could not carry it out now; nothing was applied")))
		case errors.Is(err, ErrClock):
			a.m.tellClock(&a.ctx, err)
			return a.refuse(a.m.unavailable(err))
		case tooLarge: // also if the handler failed: only a part of its answer is left
			return a.refuse(NewProblem(CodeAnswerTooLarge, "the answer is above the cap of this route; nothing was applied"))
		case unwritten:
			a.tellUnwritten(c.finalStatus())
			return a.refuse(NewProblem(CodeTransactionUnused, "the handler answered with a success, and its transaction carried no "+
				"write; nothing was applied"))
		case v == free:
			a.watchStatements(c.finalStatus())
			return freed(c.reply())
		case v == withhold && steps.lost != nil, v == fail && a.cutShort() != nil && !a.inside.Failed.Load() &&
			c.finalStatus() < http.StatusInternalServerError:
			return a.refuse(NewProblem(CodeTransactionAborted, "a step or a statement had failed; nothing was applied"))
		case v == withhold && a.steps != nil:
			return a.refuse(NewProblem(CodeCallUnfinished, "the handler answered with a success, and a call has failed; nothing was "+
				"applied"))
		case v == withhold:
			return a.refuse(a.m.withRetry(NewProblem(CodeRolledBack, "a service that the handler called has not finished; nothing "+
				"was applied")))
		case v == fail:
			return c.reply()
		default:
			return a.refuse(a.m.withRetry(NewProblem(CodeRolledBack, "the deadline has passed; nothing was applied")))
		}
	}

	reply := c.reply()
	ctx := new(lazyContext).until(&a.inside, time.Now().Add(confirmFor))
	defer ctx.cancel(context.Canceled)
	answer := a.completion(v, a.m.recorded(c, reply))
	seal := store.Seal{Answer: &answer, Alone: v == recordAlone}
	if a.steps != nil && !seal.Alone {
		seal.Steps = a.steps.unsealed()
	}
	_, err := a.tx.Seal(ctx, seal)
	a.tellStatement(err)
	switch {
	case err == nil:
		a.observe(Event{Kind: EventCompleted, Status: reply.Status})
		if unwritten {
			a.tellUnwritten(reply.Status)
		}
		a.watchStatements(reply.Status)
		reply.result = resultCreated
		return reply
	case errors.Is(err, store.ErrEnded):
		return a.endedByHandler(err)
	case errors.Is(err, ErrStale):
		a.observe(Event{Kind: EventRolledBack, Err: err})
		return a.asRepeat()
	case errors.Is(err, ErrRetryable):
		a.observe(Event{Kind: EventRolledBack, Err: err})
		return a.refuse(a.m.withRetry(NewProblem(CodeRolledBack, "the database could not carry it out now; nothing was applied")))
	case errors.Is(err, ErrAborted):
		a.observe(Event{Kind: EventRolledBack, Err: err})
		return a.refuse(NewProblem(CodeTransactionAborted, "a statement of the transaction had failed; nothing was applied"))
	default:
		return a.unconfirmed(err)
	}
}

// tellStatement sends an event if the database has refused a statement of the store: only an operator can help.
func (a *Attempt) tellStatement(err error) {
	if errors.Is(err, store.ErrStatement) {
		a.observe(Event{Kind: EventFailed, Err: err})
	}
}

// asRepeat is the answer if another attempt's record stands: everything of this one is undone, and the client is told what a
// repeat is told (M-6).
func (a *Attempt) asRepeat() *Reply {
	m, adm := a.m, a.admission
	ctx := new(lazyContext).until(&a.inside, time.Now().Add(m.cfg.ClaimTimeout))
	defer ctx.cancel(context.Canceled)
	rec, err := m.cfg.Store.Find(ctx, adm.id, store.Viewer{All: true})
	var problem *Problem
	switch {
	case errors.Is(err, ErrNotFound):
		problem = m.inFlight() // the other one has not committed yet, or is gone
	case err != nil:
		problem = a.commitUnconfirmed()
	default:
		problem = m.repeatProblem(ctx, adm, &store.Claimed{Record: rec})
	}
	if problem == nil {
		return m.replay(a.request, adm, &rec)
	}
	return m.refuseRepeat(a.request, adm, problem)
}

// endedByHandler is the answer if the handler has ended its transaction itself, so that some of its rows may stay.
func (a *Attempt) endedByHandler(err error) *Reply {
	a.observe(Event{Kind: EventUnknown, Status: a.capture.finalStatus(), Err: err})
	return a.refuse(outcomeUnknown(a.ticket.ID))
}

// carriedNoWrite reports whether a Rollback handler has succeeded, its transaction has carried no write, and its policy does
// not allow that. If it has written rows, they are outside the transaction, and after a crash the next attempt writes them
// again.
func (a *Attempt) carriedNoWrite() bool {
	return a.steps == nil && a.capture.finalStatus() < http.StatusBadRequest && a.route.Unwritten != UnwrittenAllowed &&
		!a.tx.Statements().Wrote
}

func (a *Attempt) tellUnwritten(status int) {
	a.observe(Event{Kind: EventTransactionUnused, Status: status, Count: a.nth(&a.m.unwritten), Err: errUnwritten})
}

// nth counts an attempt of its route in this process.
func (a *Attempt) nth(counts *sync.Map) int {
	count, _ := counts.LoadOrStore(routeKey{a.request.Method, a.admission.pattern}, new(atomic.Int64))
	return int(count.(*atomic.Int64).Add(1))
}

// watchStatements sends an event if a 4xx answers a statement that has failed, and that no savepoint has undone.
func (a *Attempt) watchStatements(status int) {
	if status < http.StatusBadRequest || status >= http.StatusInternalServerError {
		return
	}
	if what := a.tx.Statements().Failed; what != "" {
		err := errors.New("idem: a statement of the handler had failed: " + what)
		a.observe(Event{Kind: EventStatementFailed, Status: status, Count: a.nth(&a.m.failing), Err: err})
	}
}

// errUnwritten is the reason of EventTransactionUnused.
var errUnwritten = errors.New("idem: the transaction carried no write, so rows that the handler has written stay when an " +
	"attempt fails; write through gormstore.Tx(ctx), or say core.UnwrittenAllowed in the route's policy")
