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
	undone := !inTime || tooLarge || sick || v == free || v == fail || v == failReplaced
	unwritten := !undone && v == record && a.carriedNoWrite()
	if undone || unwritten && a.route.Unwritten == UnwrittenRefused {
		err := a.tx.Rollback()
		if errors.Is(err, store.ErrEnded) || errors.Is(err, ErrUnconfirmed) { // or another attempt has committed (M-6)
			return a.told(err)
		}
		err = cmp.Or(err, steps.seal)
		a.tellStatement(err)
		a.observe(Event{Kind: EventRolledBack, Status: c.finalStatus(), Err: cmp.Or(err, a.cutShort())})
		if !inTime && !errors.Is(err, ErrStale) {
			a.observe(Event{Kind: EventOverdue, Status: c.finalStatus()})
		}
		if errors.Is(err, ErrStale) || errors.Is(err, ErrRetryable) || errors.Is(err, ErrClock) {
			return a.told(err)
		}
		return a.undone(v, steps, tooLarge, unwritten)
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
	if a.withoutSeal(err, &answer.Answer) {
		_, err = a.tx.Seal(ctx, seal)
	}
	switch {
	case err == nil:
		a.observe(Event{Kind: EventCompleted, Status: reply.Status})
		if unwritten {
			a.tellUnwritten(reply.Status)
		}
		a.watchStatements(reply.Status)
		reply.result = resultCreated
		return reply
	case errors.Is(err, ErrStale), errors.Is(err, ErrRetryable), errors.Is(err, ErrAborted), errors.Is(err, ErrClock):
		a.tellStatement(err)
		a.observe(Event{Kind: EventRolledBack, Err: err})
	}
	return a.told(err)
}

// tellStatement sends an event if the database has refused a statement of the store: only an operator can help.
func (a *Attempt) tellStatement(err error) {
	if errors.Is(err, store.ErrStatement) {
		a.observe(Event{Kind: EventFailed, Err: err})
	}
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
	count, _ := counts.LoadOrStore(routeKey{a.request.Method, a.req.pattern}, new(atomic.Int64))
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
