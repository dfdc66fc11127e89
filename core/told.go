package core

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/auth19/idem/core/store"
)

// What a client hears of an attempt has three parts. judge in verdict.go says what is to become of the attempt. If the
// store does it, the client hears what undone and the ends of Park and Resume say. If it does not, told says what the client
// hears: nothing else turns an error of Seal, Rollback, End and Renew into an answer.

// told is the answer of an attempt that the store has not ended as it was asked to.
//
//	the error      nothing has committed      Resume, and a segment has         Park              rules
//	ErrEnded       409 outcome_unknown            409 outcome_unknown                                 X-8
//	ErrStale       what a repeat is told      what a repeat is told, or 409 outcome_unknown       M-6, X-2
//	ErrClock       503 store_unavailable          503 commit_unconfirmed                              T-5
//	ErrRetryable   503 rolled_back                500 call_unfinished: it continues                  
//	ErrAborted     500 transaction_aborted        500 call_unfinished: it continues                  
//	ErrStatement   by what else it is             503 commit_unconfirmed                              X-14
//	any other      503 commit_unconfirmed         503 commit_unconfirmed     503 commit_unconfirmed  
func (a *Attempt) told(err error) *Reply {
	changed := a.mayHaveChanged()
	refused := errors.Is(err, ErrRetryable) || errors.Is(err, ErrAborted)
	switch {
	case errors.Is(err, store.ErrEnded): // some of the handler's rows may stay
		a.observe(Event{Kind: EventUnknown, Status: a.capture.finalStatus(), Err: err})
		return a.refuse(outcomeUnknown(a.ticket.ID))
	case errors.Is(err, ErrStale):
		return a.asRepeat(changed)
	case changed && refused && a.steps != nil && !errors.Is(err, store.ErrStatement):
		return a.yield(err, CodeCallUnfinished, a.callUnfinished)
	case changed:
	case errors.Is(err, ErrClock):
		a.m.tellClock(&a.ctx, err)
		return a.refuse(a.m.unavailable(err))
	case errors.Is(err, ErrRetryable):
		return a.rolledBack("the database could not carry it out now")
	case errors.Is(err, ErrAborted):
		return a.refuse(NewProblem(CodeTransactionAborted, "a statement of the transaction had failed; nothing was applied"))
	}
	a.tellStatement(err)
	a.observe(Event{Kind: EventUnconfirmed, Err: err})
	return a.refuse(a.commitUnconfirmed())
}

// undone is the answer of an attempt whose rows were undone because of its verdict, or because of its time or its size.
//
//	too large                                  500 answer_too_large                                        R-4
//	no write, and that is refused              500 transaction_unused                                      X-11
//	free                                       the handler's, not_applied                                  R-6
//	failReplaced, fail: a step or rows failed  500 transaction_aborted                                    
//	failReplaced: a call failed, or relayed    500 call_unfinished in Resume, 503 rolled_back in Rollback 
//	fail                                       the handler's                                              
//	late                                       503 rolled_back                                             X-1
func (a *Attempt) undone(v verdict, steps progress, tooLarge, unwritten bool) *Reply {
	status := a.capture.finalStatus()
	cut := a.cutShort() != nil && !a.inside.Failed.Load() && status < http.StatusInternalServerError
	switch {
	case tooLarge: // also if the handler failed: only a part of its answer is left
		return a.refuse(NewProblem(CodeAnswerTooLarge, "the answer is above the cap of this route; nothing was applied"))
	case unwritten:
		a.tellUnwritten(status)
		return a.refuse(NewProblem(CodeTransactionUnused, "the handler answered with a success, and its transaction carried no "+
			"write; nothing was applied"))
	case v == free:
		a.watchStatements(status)
		return freed(a.capture.reply())
	case v == failReplaced && steps.lost != nil, v == fail && cut:
		return a.refuse(NewProblem(CodeTransactionAborted, "a step or a statement had failed; nothing was applied"))
	case v == failReplaced && a.steps != nil:
		return a.refuse(NewProblem(CodeCallUnfinished, "the handler answered with a success, and a call has failed; nothing was "+
			"applied"))
	case v == failReplaced:
		return a.rolledBack("a service that the handler called has not finished")
	case v == fail:
		return a.capture.reply()
	}
	return a.rolledBack("the deadline has passed")
}

func (a *Attempt) rolledBack(why string) *Reply {
	return a.refuse(a.m.withRetry(NewProblem(CodeRolledBack, why+"; nothing was applied")))
}

// asRepeat is the answer if another attempt, or a settlement, has the record: the client is told what a repeat is told
// (M-6). If the attempt has changed something, that is not always so: the key may have been freed, and used for another
// command.
func (a *Attempt) asRepeat(changed bool) *Reply {
	if changed {
		a.observe(Event{Kind: EventStale, Status: a.capture.finalStatus()})
	}
	m, q := a.m, a.req
	ctx := new(lazyContext).until(&a.inside, time.Now().Add(m.cfg.ClaimTimeout))
	defer ctx.cancel(context.Canceled)
	rec, err := m.cfg.Store.Find(ctx, a.ticket.ID, store.Viewer{All: true})
	if err != nil && !errors.Is(err, ErrNotFound) { // a repeat learns it
		return m.refuseRepeat(a.request, q, a.commitUnconfirmed())
	}
	problem := m.inFlight() // without a record: the other one has not committed yet, or is gone
	if err == nil {
		problem = m.repeatProblem(ctx, q, &store.Claimed{Record: rec})
	}
	switch {
	case problem == nil:
		return m.replay(a.request, q, &rec)
	case !changed:
		return m.refuseRepeat(a.request, q, problem)
	case problem.Code == CodeResponseNotReplayable, problem.Code == CodeInFlight && a.steps != nil && err == nil:
		return a.refuse(problem) // another attempt has taken the Resume operation over
	}
	return a.refuse(outcomeUnknown(a.ticket.ID))
}

func (a *Attempt) commitUnconfirmed() *Problem {
	problem := a.m.withRetry(NewProblem(CodeCommitUnconfirmed, "the outcome could not be confirmed yet; repeat with the "+
		"same key to learn it"))
	problem.Operation, problem.unknown = a.ticket.ID.String(), true
	return problem
}
