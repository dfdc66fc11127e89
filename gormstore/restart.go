package gormstore

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A server that crashes or restarts shows the commits that were waiting for its synchronous standby before the standby has
// them. A repeat that is answered from one of those is told of a payment that a failover loses (F-2). So the first answer
// from each backend waits for a write: when that is confirmed, everything is that was visible before it. What becomes
// visible later, while that backend lives, its owner has waited for.

// backendColumns are the process at the other end, and when its server was started: NULL where that has no synchronous
// standby to wait for.
const backendColumns = `pg_catalog.pg_backend_pid(),
	CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
	THEN pg_catalog.pg_postmaster_start_time() END`

// confirmed are the backends of a server whose answers need no further write.
type confirmed struct {
	mu       sync.Mutex
	started  time.Time
	backends map[uint32]bool
}

// maxConfirmed bounds what is remembered of backends that are gone: then all are asked once more.
const maxConfirmed = 1024

func (c *confirmed) has(started time.Time, pid uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started.Equal(started) && c.backends[pid]
}

func (c *confirmed) add(started time.Time, pid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.started.Equal(started) || len(c.backends) == maxConfirmed {
		c.started, c.backends = started, make(map[uint32]bool)
	}
	c.backends[pid] = true
}

// confirm makes sure that a record that was read and is to be answered from is on the synchronous standby, if there is
// one. An error says that this is not known: errRace where the record is another one by now, because the standby has
// taken over in between and never had it.
func (s *Store) confirm(ctx context.Context, read *recordScan) error {
	if read.started.IsZero() || s.confirmed.has(read.started.Time, read.pid) {
		return nil
	}
	n, err := s.exec(ctx, s.pool, touchRead, read.id, read.owner, read.fence.Int64)
	switch {
	case err != nil:
		return fmt.Errorf("idem: gormstore: the server may have lost its standby since this was committed: %w", err)
	case n == 0:
		return errRace
	}
	s.confirmed.add(read.started.Time, read.pid)
	return nil
}
