package core

import (
	"net/http"

	"github.com/auth19/idem/core/store"
)

// verdict says what happens to an attempt whose handler has ended.
type verdict uint8

const (
	// record: the answer is recorded, and with Rollback the handler's rows commit with it.
	record verdict = iota
	// recordAlone: the rows are undone and the answer is recorded.
	recordAlone
	// free: it is proven that nothing was applied, and the answer is not recorded; the key is free.
	free
	// fail: 5xx, a panic, or an error without an answer. Rollback undoes the rows, which frees the key, and so does Resume
	// before its first commit; behind it the key stays in use, and the next repeat continues. Park cannot undo anything: the
	// outcome is unknown (X).
	fail
	// failReplaced: fail, and the answer does not leave. It is a success, and the client would take it for one.
	failReplaced
)

// ending is what is known of a handler that has ended.
type ending struct {
	recovery   Recovery
	status     int
	panicked   bool
	unrendered bool // the handler returned an error, and wrote no answer for it
	notApplied bool // core.NotApplied
	committed  bool // a segment has committed: see progress.committed in sequence.go
	keepRows   bool // core.KeepRows
	failed     bool // core.Failed: its answer leaves, whatever its status is
	unfinished bool // a step that is not optional has not finished
	cut        bool // the handler has got less than it asked for
	lost       bool // the open segment cannot commit
	relayed    bool // the answer is the problem of another service, which has not finished
}

// judge decides what happens to an attempt whose handler has ended, and so whether its key becomes free (R-6, X-0;
// docs/contributors/invariants.md lists the rules). Other functions decide the rest. A Rollback transaction that cannot
// commit also frees the key: endTransaction in rollback.go. If the process dies, judge does not run, and Record.State says
// what follows. Record.State also says when a key is free after its retention and tombstone, and a settlement can free the
// key of an unknown operation.
func judge(e ending) verdict {
	// The proof that nothing was applied is NotApplied, or rows that will be undone. NotApplied counts only with a 4xx or
	// 5xx, or with Failed. Behind the first commit there is no proof any more.
	undone := e.recovery != Park && !e.committed && !e.keepRows
	open := e.unfinished || e.relayed || e.cut || e.lost && !undone
	switch {
	case e.panicked || e.unrendered:
		return fail
	case e.status < 400 && !e.failed && (open || e.lost):
		return failReplaced
	case e.status < 400 && !e.failed:
		return record
	case e.notApplied && !e.committed:
		return free
	case e.status >= 500 || e.failed || open:
		return fail
	case !undone:
		return record
	}
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return free
	}
	return recordAlone
}

// completion says how long an answer is kept. A 400 or 422 whose rows were undone is kept for InvalidRetention. The
// record of a timed key is kept until the key is too old, whatever its answer is.
func (a *Attempt) completion(v verdict, answer Answer) store.Completion {
	invalid := answer.Status == http.StatusBadRequest || answer.Status == http.StatusUnprocessableEntity
	if v == recordAlone && invalid && !a.timed {
		return store.Completion{Answer: answer, Retention: a.route.InvalidRetention}
	}
	tombstone := a.m.tombstone(a.route.Policy, a.timed)
	return store.Completion{Answer: answer, Retention: a.route.Retention, Tombstone: tombstone}
}
