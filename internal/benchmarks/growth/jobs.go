package main

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"time"

	"github.com/auth19/idem/core"
)

// job is what a client does again and again.
type job func(ctx context.Context, d *database) error

// claimOf is a command by one of many principals.
func claimOf(id core.ID, recovery core.Recovery) core.Claim {
	c := core.Claim{
		ID: id, Scope: core.Scope(idOf(mathrand.Int64N(principals))), Method: method, Route: route, Recovery: recovery,
		Hash: core.CommandHash{Version: 1, Sum: id}, Lease: core.DefaultLease, Deadline: core.DefaultDeadline,
	}
	rand.Read(c.Owner[:])
	return c
}

// newID is one that no record has: SHA-256 cannot be told from random bytes.
func newID() (id core.ID) {
	rand.Read(id[:])
	return id
}

// completion is a generated record's answer.
func completion(retention, tombstone time.Duration) core.Completion {
	return core.Completion{
		Answer:    core.Answer{Status: status, Header: http.Header{"Content-Type": {contentType}}, Body: []byte(bodyOf(0))},
		Retention: retention, Tombstone: tombstone,
	}
}

// firstPark is a first request on a Park route: two statements, each a durable commit.
func firstPark(retention, tombstone time.Duration) job {
	return func(ctx context.Context, d *database) error {
		claimed, err := d.store.Claim(ctx, claimOf(newID(), core.Park))
		if err != nil || !claimed.Won {
			return notWon(err)
		}
		return d.store.Complete(ctx, claimed.Record.Ticket, completion(retention, tombstone))
	}
}

// firstRollback is a first request on a Rollback route whose handler writes nothing: one durable commit.
func firstRollback(ctx context.Context, d *database) error {
	tx, claimed, err := d.store.Begin(ctx, claimOf(newID(), core.Rollback))
	if err != nil || !claimed.Won {
		return notWon(err)
	}
	return tx.Commit(ctx, completion(retention, tombstone), false)
}

func notWon(err error) error {
	if err == nil {
		err = fmt.Errorf("a new key was not won")
	}
	return err
}

// replay is a repeat of any command whose answer can still be replayed.
func replay(ctx context.Context, d *database) error {
	i := d.anyLive()
	claimed, err := d.store.Claim(ctx, claimOf(idOf(i), core.Park))
	if err != nil {
		return err
	}
	return isRecord(claimed.Record, i)
}

// find is what an operator's question for one operation asks.
func find(ctx context.Context, d *database) error {
	i := d.anyLive()
	rec, err := d.store.Find(ctx, idOf(i))
	if err != nil {
		return err
	}
	return isRecord(rec, i)
}

// list is the first page of unknown operations, for operators and reconcilers.
func list(ctx context.Context, d *database) error {
	records, err := d.store.List(ctx, nil, core.ID{}, maxOpen)
	if err == nil && int64(len(records)) != openOf(d.records) {
		err = fmt.Errorf("%s: %d unknown operations, not %d", d.name, len(records), openOf(d.records))
	}
	return err
}

// anyLive is one of the generated records that can be replayed.
func (d *database) anyLive() int64 {
	from := liveFrom(d.records)
	return from + mathrand.Int64N(liveTo(d.records)-from)
}

// isRecord tells whether it is the generated one, with its answer.
func isRecord(rec core.Record, i int64) error {
	if rec.ID != idOf(i) || rec.State() != core.Completed || string(rec.Answer.Body) != bodyOf(i) {
		return fmt.Errorf("record %d is %s, with the answer %q", i, rec.State(), rec.Answer.Body)
	}
	return nil
}
