package operations

import (
	"errors"
	"net/http"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/text"
	"github.com/auth19/idem/core/store"
)

// retry is [Retry].
func (q *request) retry() (*core.Reply, *core.Problem) {
	return q.intervene(http.StatusAccepted, core.EventRetried)
}

// giveUp is [GiveUp].
func (q *request) giveUp() (*core.Reply, *core.Problem) {
	return q.intervene(http.StatusOK, core.EventGivenUp)
}

// intervene does what the body says with an operation that the operator may change. kind says what, and status what follows.
func (q *request) intervene(status int, kind core.EventKind) (*core.Reply, *core.Problem) {
	var req struct {
		Fence  int64  `json:"fence"`
		Reason string `json:"reason"`
	}
	err := unmarshalStrict(q.body, &req)
	if err != nil || req.Fence < 1 || strings.TrimSpace(req.Reason) == "" || !text.Storable(req.Reason) {
		return nil, core.NewProblem(core.CodeBadRequest, "want a JSON object with fence, that of the operation, and reason, for "+
			"the history")
	}
	ctx, cancel := q.brief(q.Context())
	defer cancel()
	seen, running, err := q.findOr(ctx, q.id, store.Viewer{Realm: q.operated(q.by)}, q.cfg.Store.Find)
	if running {
		err = errUnderWay
	}
	if err != nil {
		return nil, q.problemOf(err)
	}
	policy, _ := q.in.PolicyOf(seen.Method, seen.Route)
	rec, err := q.store.Intervene(ctx, store.Intervention{ID: q.id, GiveUp: kind == core.EventGivenUp, Window: q.in.Window(),
		Who: q.by.Name(), Fence: req.Fence, Why: req.Reason, Pause: policy.ResumePause})
	q.in.TellClock(q.Context(), err)
	switch {
	case errors.Is(err, store.ErrNotSettleable):
		return nil, core.NewProblem(core.CodeNotSettleable, "only a half-done operation can be tried again or given up: one of "+
			"Resume that nobody runs, past its lease and deadline")
	case err != nil:
		return nil, q.problemOf(err)
	}
	q.in.Observe(q.Context(), core.Event{Kind: kind, Operation: q.id, Method: rec.Method, Route: rec.Route,
		Recovery: rec.Recovery, Fence: rec.Fence, Who: q.by.Name(), Why: req.Reason})
	q.in.Wake(q.Context())
	return jsonReply(status, operatorView(rec))
}
