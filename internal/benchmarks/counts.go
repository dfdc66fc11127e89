package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/auth19/idem/internal/pgtest"
)

// counts is what a command does that does not depend on the machine.
type counts struct {
	wal        float64 // bytes
	commits    float64 // COMMIT records in the WAL
	roundTrips float64
}

// counter sends commands, one after the other, on a server of its own that does nothing else.
type counter struct {
	commands int
	proxy    *proxy
	pool     *sql.DB // of the app, through the proxy
	admin    *sql.DB // past it
	wal      string  // the folder
	waldump  string  // PostgreSQL's program
}

// counted are the ways whose commands are counted, and what is special about some of them.
var (
	failing    = way{"`Rollback` that fails", app.failing, failed, false}
	noCall     = way{"`Resume`: a row", func(a app) http.Handler { return a.resumeWith(0) }, created, false}
	threeCalls = way{"`Resume` with three calls", func(a app) http.Handler { return a.resumeWith(3) }, created, false}
)

// count counts. The server makes no full-page images, whose number depends on its checkpoints, and nothing works in the
// background.
func (b *benchmark) count(t testing.TB) (map[string]counts, error) {
	url := pgtest.Own(t, "full_page_writes=off", "autovacuum=off", "checkpoint_timeout=1h").URL()
	admin, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = admin.Close() })
	c := counter{commands: b.commands, admin: admin}
	if c.proxy, err = newProxy(t, url, 0); err != nil {
		return nil, err
	}
	on, err := openPool(t, c.proxy.url)
	if err != nil {
		return nil, err
	}
	c.pool = on.pool
	var data, programs string
	err = admin.QueryRow(`SELECT current_setting('data_directory'), setting FROM pg_config WHERE name = 'BINDIR'`).
		Scan(&data, &programs)
	if err != nil {
		return nil, err
	}
	c.wal, c.waldump = filepath.Join(data, "pg_wal"), filepath.Join(programs, "pg_waldump")

	all := make(map[string]counts)
	for _, w := range []way{
		bare, oneTransaction, rollback, failing, twoStatements, park, oneSelect, replay, twoBare, noCall, resume, threeCalls,
	} {
		sides, err := b.sides(variant{inSQL, plainSQL, on}, w)
		if err != nil {
			return nil, err
		}
		if all[w.name], err = c.of(sides[0].send); err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		b.progress("    %-62s %+v\n", w.name, all[w.name])
	}
	return all, nil
}

// of counts what a command does.
func (c *counter) of(send func() error) (each counts, err error) {
	if err := c.send(send); err != nil { // what is asked once, and what each connection prepares once
		return counts{}, err
	}
	// Not for long: pgx tries a connection that was idle for a second, and that is a round trip.
	for end := time.Now().Add(300 * time.Millisecond); c.pool.Stats().InUse > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	kept := c.pool.Stats().InUse // the connection that renews leases, if there is one
	from, before, err := c.read()
	if err != nil {
		return counts{}, err
	}
	if err := c.send(send); err != nil {
		return counts{}, err
	}
	for c.pool.Stats().InUse > kept { // what ends behind an answer
		time.Sleep(time.Millisecond)
	}
	to, after, err := c.read()
	if err != nil {
		return counts{}, err
	}
	var wal float64
	if err := c.admin.QueryRow("SELECT pg_wal_lsn_diff($1, $2)", to, from).Scan(&wal); err != nil {
		return counts{}, err
	}
	commits, err := c.commits(from, to)
	n := float64(c.commands)
	return counts{wal / n, float64(commits) / n, float64(after-before) / n}, err
}

func (c *counter) send(send func() error) error {
	for range c.commands {
		if err := send(); err != nil {
			return err
		}
	}
	return nil
}

// read returns the end of the WAL, and how many round trips there were.
func (c *counter) read() (lsn string, roundTrips int, err error) {
	if err = c.admin.QueryRow("SELECT pg_current_wal_insert_lsn()").Scan(&lsn); err != nil {
		return "", 0, err
	}
	roundTrips, err = c.proxy.roundTrips()
	return lsn, roundTrips, err
}

// commits counts COMMIT records. A transaction that has only read writes none.
func (c *counter) commits(from, to string) (int, error) {
	// A commit takes everything before it to the disk, where pg_waldump reads.
	if _, err := c.admin.Exec("SELECT pg_logical_emit_message(true, 'flush', '')"); err != nil || from == to {
		return 0, err
	}
	cmd := exec.CommandContext(context.Background(), c.waldump, "--path="+c.wal, "--start="+from, "--end="+to,
		"--rmgr=Transaction")
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var failed bytes.Buffer
	cmd.Stderr = &failed
	records, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("pg_waldump: %w: %s", err, failed.Bytes())
	}
	return bytes.Count(records, []byte("desc: COMMIT")), nil
}
