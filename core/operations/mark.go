package operations

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/text"
	"github.com/auth19/idem/core/store"
)

// maxMarked is how many operations a command marks.
const maxMarked = 500

// Mark is for a supervisor, after the database has lost commits: after a restore, or a failover to an asynchronous standby.
// It takes the keys of operations that a provider's list names, by the id that the handlers send to it as metadata (see
// [core.Operation]). Each becomes unknown: its repeats do not run, and it has to be settled. Nobody knows its principal and
// its command; its first repeat says whose it is and of which route, and no command is compared. No sweep takes it, and
// Config.Reconcile is not asked for it before that repeat. An id that has a record is left alone, and not counted. who and
// why are kept in the history of each. In a Rollback attempt on the same store it commits with the attempt.
//
// Errors: who or why is missing; [core.ErrClock]. Any other error means that the store did not answer, or is full:
// repeat it.
func (m *Operations) Mark(ctx context.Context, ids []core.ID, who, why string) (store.Imported, error) {
	if strings.TrimSpace(who) == "" || strings.TrimSpace(why) == "" || !text.Storable(who) || !text.Storable(why) {
		return store.Imported{}, errors.New("idem: Mark: who and why are required, as text without NUL")
	}
	marking := store.Marking{IDs: ids, Window: m.in.Window(), Who: who, Why: why}
	copy(marking.Realm[:], m.service)
	done, err := m.store.Mark(ctx, marking)
	if err != nil {
		return done, fmt.Errorf("idem: Mark: %w", err)
	}
	m.in.Observe(ctx, core.Event{Kind: core.EventMarked, Count: done.Added + done.Replaced, Who: who, Why: why})
	return done, nil
}

// markedView is the answer of [Mark].
type markedView struct {
	Marked int `json:"marked"`
	Left   int `json:"left"` // that have a record
	// Running are left, too, because an attempt of their key has not ended. It may give the key back: mark them again.
	Running int `json:"running"`
}

// mark is [Mark].
func (q *request) mark() (*core.Reply, *core.Problem) {
	var req struct {
		IDs    []core.ID `json:"ids"`
		Reason string    `json:"reason"`
	}
	err := unmarshalStrict(q.body, &req)
	if err != nil || len(req.IDs) == 0 || len(req.IDs) > maxMarked || strings.TrimSpace(req.Reason) == "" ||
		len(req.Reason) > maxWhy || !text.Storable(req.Reason) {
		return nil, core.NewProblem(core.CodeBadRequest, fmt.Sprintf("want a JSON object with ids, 1 to %d operation ids of 64 "+
			"hex digits, and reason, for the history, of at most %d bytes", maxMarked, maxWhy)+at(err))
	}
	done, err := q.Mark(q.Context(), req.IDs, q.by.Name(), req.Reason)
	if err != nil {
		q.in.TellClock(q.Context(), err)
		return nil, q.in.Unavailable(err)
	}
	view := markedView{Marked: done.Added + done.Replaced, Running: done.Running}
	view.Left = len(req.IDs) - view.Marked - view.Running
	return jsonReply(http.StatusOK, view)
}
