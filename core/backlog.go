package core

import (
	"context"

	"github.com/auth19/idem/core/store"
)

// maxBacklog is how many operations Backlog counts: more would only cost more.
const maxBacklog = 10_000

// Backlog says how many operations of this service need an operator, on which routes, and when the oldest was claimed: for
// metrics. It counts the oldest 10,000, of all principals. It waits for the store for Config.ClaimTimeout at most.
//
// It may be late. An operation whose process was killed is counted once a sweep has seen it. Until then it is missing: while
// no instance runs [Module.Run] and, with gormstore, while a transaction that stays open holds the sweep up
// ([EventSweepHeldUp]). The lists of operators have it all the time.
//
// Any error means that the store did not answer.
func (m *Module) Backlog(ctx context.Context) ([]store.Count, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.ClaimTimeout)
	defer cancel()
	q := store.Query{Unknown: true, HalfDone: true, Within: m.service, Limit: maxBacklog, Swept: true}
	return m.operations.Count(ctx, q)
}
