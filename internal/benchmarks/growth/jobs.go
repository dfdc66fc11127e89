package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// job is what a client does again and again.
type job func(ctx context.Context, d *database) error

// claimOf is a command by one of many principals.
func claimOf(id store.ID, recovery store.Recovery) store.Claim {
	principal := binary.BigEndian.AppendUint64(nil, uint64(mathrand.Int64N(principals)))
	c := store.Claim{
		ID: id, Scope: store.Scope(sha256.Sum256(principal)), Method: method, Route: route, Recovery: recovery,
		Hash: store.CommandHash{Version: 1, Sum: id}, Lease: core.DefaultLease, Deadline: core.DefaultDeadline,
		Retention: retention,
	}
	rand.Read(c.Owner[:])
	return c
}

// completion is a generated record's answer.
func completion(retention, tombstone time.Duration) store.Completion {
	return store.Completion{
		Answer:    store.Answer{Status: status, Header: http.Header{"Content-Type": {contentType}}, Body: []byte(bodyOf(0))},
		Retention: retention, Tombstone: tombstone,
	}
}

// firstPark is a first request on a Park route: two statements, each a durable commit.
func firstPark(retention, tombstone time.Duration) job {
	return func(ctx context.Context, d *database) error {
		c := claimOf(d.keys.newID(), store.Park)
		c.Retention = retention
		c.Deadline = min(c.Deadline, retention/10) // where a day is some seconds
		claimed, err := d.store.Claim(ctx, c)
		if err != nil || !claimed.Won {
			return notWon(err)
		}
		return d.store.Complete(ctx, claimed.Record.Ticket, completion(retention, tombstone))
	}
}

// firstRollback is a first request on a Rollback route whose handler writes nothing: one durable commit.
func firstRollback(ctx context.Context, d *database) error {
	tx, claimed, err := d.store.Begin(ctx, claimOf(d.keys.newID(), store.Rollback))
	if err != nil || !claimed.Won {
		return notWon(err)
	}
	answer := completion(retention, tombstone)
	_, err = tx.Seal(ctx, store.Seal{Answer: &answer})
	return err
}

func notWon(err error) error {
	if err == nil {
		err = fmt.Errorf("a new key was not won")
	}
	return err
}

// replayLastHour is a repeat of a command of the last hour, replayAll of any command whose answer can still be replayed.
func replayLastHour(ctx context.Context, d *database) error { return d.replay(ctx, d.lastHour()) }
func replayAll(ctx context.Context, d *database) error      { return d.replay(ctx, d.records-d.liveFrom()) }

// replay is a repeat of one of the newest commands.
func (d *database) replay(ctx context.Context, newest int64) error {
	i := d.records - 1 - mathrand.Int64N(newest)
	claimed, err := d.anyStore().Claim(ctx, claimOf(d.idOf(i), store.Park))
	if err != nil {
		return err
	}
	return d.isRecord(claimed.Record, i)
}

// idOf is the id of a generated record.
func (d *database) idOf(i int64) store.ID { return d.keys.idOf(i, d.made(i, d.filled)) }

// isRecord reports whether a record is the generated one, with its answer.
func (d *database) isRecord(rec store.Record, i int64) error {
	if rec.ID != d.idOf(i) || rec.State() != store.Completed || string(rec.Answer.Body) != bodyOf(i) {
		return fmt.Errorf("record %d is %s, with the answer %q", i, rec.State(), rec.Answer.Body)
	}
	return nil
}

// list is the first page of unknown operations, for operators and reconcilers.
func list(ctx context.Context, d *database) error {
	records, err := d.store.List(ctx, nil, store.ID{}, maxUnknown)
	if err == nil && int64(len(records)) != d.unknown {
		err = fmt.Errorf("%s: %d unknown operations, not %d", d.name, len(records), d.unknown)
	}
	return err
}
