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
// Any error means that the store did not answer.
func (m *Module) Backlog(ctx context.Context) ([]store.Count, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.ClaimTimeout)
	defer cancel()
	q := store.Query{Unknown: true, HalfDone: true, Within: m.service, Limit: maxBacklog}
	return m.operations.Count(ctx, q)
}
