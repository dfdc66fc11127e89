package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/internal/benchmarks/report"
	"github.com/auth19/idem/internal/pgtest"
	"github.com/auth19/idem/internal/testhost"
)

// A crowd is more than an app can do. Each trial runs with a bare handler and with the library, on one server, one after the
// other. A command holds a connection for 20 ms. Clients are honest: they leave when their patience is over, and repeat a
// command that has not succeeded under its key, after Retry-After if they are told one.

// trial is one crowd.
type trial struct {
	name       string
	pool       int           // connections of the app
	link       time.Duration // a round trip to the database takes so much longer, once the app is at work
	cold       bool          // no connection is open then
	clients    int           // a closed loop: each sends its next command when the last one has ended
	rate       float64       // an open loop: so many commands a second come, whatever happens
	load       float64       // an open loop: so many times what 16 clients get through
	patience   time.Duration // of a client, for one try; default 2 s
	call       time.Duration // a handler works so long without a connection
	neighbours int           // clients of a route without the library, on the same pool, without a pause
	locked     bool          // in the middle third nobody gets to the records: their table is locked
	silent     bool          // after a third, nothing passes any more over the connections that are open
	policy     core.Policy   // but for its recovery
	ways       []string      // default: everyWay
}

var (
	everyWay   = []string{bareWay, "Rollback", "Resume", "Park", "Rollback, Park"}
	calling    = []string{"Resume", "Park"}
	shortLease = core.Policy{Lease: 6 * time.Second, Deadline: 30 * time.Second}
)

const bareWay = "bare"

var trials = []trial{
	{name: "256 clients without a pause", pool: 8, clients: 256},
	{name: "1.5 times the capacity", pool: 8, load: 1.5},
	{name: "3 times the capacity", pool: 8, load: 3},
	{name: "500 ms slower", pool: 32, link: 500 * time.Millisecond, rate: 4, patience: 10 * time.Second},
	{name: "400 ms slower, cold pool", pool: 32, link: 400 * time.Millisecond, cold: true, rate: 3, patience: 5 * time.Second},
	{name: "50 ms slower, full pool", pool: 32, link: 50 * time.Millisecond, clients: 64},
	{name: "records locked", pool: 8, rate: 100, locked: true},
	{name: "silent connections", pool: 8, rate: 50, silent: true, policy: core.Policy{Deadline: 10 * time.Second}},
	{name: "256 neighbours", pool: 8, rate: 15, neighbours: 256, ways: calling, call: 5 * time.Second, policy: shortLease},
	{name: "1,000 neighbours", pool: 8, rate: 15, neighbours: 1000, ways: calling, call: 5 * time.Second, policy: shortLease},
}

// tryCrowds runs the trials whose names match, each way so long, and prints a table.
func tryCrowds(match string, each time.Duration) (err error) {
	names, err := regexp.Compile(match)
	if err != nil {
		return err
	}
	crowds := [][]string{{"crowd", "way", "first tries good", "good per s", "over bare, or capacity", "effects twice",
		"unknown", "leases lost", "new connections", "warnings", "refused after (p99)", "SELECT 1 (p99)", "goroutines"}}
	refusals := [][]string{{"a repeat", "plain SELECTs", "statements"}}
	failed := testhost.Run(context.Background(), "crowds", func(t testing.TB) {
		server := pgtest.Own(t, "max_connections=400")
		for _, tr := range trials {
			alone := 0.0
			for _, way := range tr.everyWay() {
				if !names.MatchString(tr.name + ": " + way) {
					continue
				}
				var o *crowdOutcome
				if o, err = tr.run(t, server, way, each); err != nil {
					err = fmt.Errorf("%s, %s: %w", tr.name, way, err)
					return
				}
				if way == bareWay {
					alone = o.goodRate()
				}
				crowds = append(crowds, append([]string{tr.name, way}, o.row(cmp.Or(o.capacity, alone))...))
				fmt.Fprintln(os.Stderr, strings.Join(crowds[len(crowds)-1], " | "))
			}
		}
		if names.MatchString("repeats") {
			var rows [][]string
			rows, err = refusedRepeats(t, server, each)
			refusals = append(refusals, rows...)
		}
	})
	if err = cmp.Or(failed, err); err != nil {
		return err
	}
	var r report.Report
	r.Table(crowds)
	r.Table(refusals)
	fmt.Print(r.String())
	return nil
}

func (tr trial) everyWay() []string {
	if tr.ways != nil {
		return tr.ways
	}
	return everyWay
}

// refusedRepeats compares repeats with one plain SELECT of an answer that was written down by hand, by how many 16 clients
// get in a second, and counts their statements.
// They come to the process of the attempt, and to another one.
func refusedRepeats(t testing.TB, server *pgtest.Cluster, each time.Duration) (rows [][]string, err error) {
	here, err := openCrowd(t, server, "", trial{pool: 32})
	if err != nil {
		return nil, err
	}
	elsewhere, err := openCrowd(t, server, here.database, trial{pool: 32})
	if err != nil {
		return nil, err
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	var firsts sync.WaitGroup
	defer firsts.Wait()
	defer close(leave)
	handlers := map[string]work{
		"replay":          func(context.Context, string) error { return nil },
		"outcome_unknown": func(context.Context, string) error { return errors.New("nobody knows") },
		"in_flight": func(context.Context, string) error {
			entered <- struct{}{}
			<-leave
			return nil
		},
	}
	byHand, known := app{plainSQL, here.opened}.oneSelect(), newKey()
	bySelect := func() error { return send(byHand, known, plain) }
	if err = bySelect(); err != nil { // it only makes the key known
		return nil, err
	}
	sides := []side{{"", oneSelect.name, bySelect}}
	for _, r := range []struct {
		name     string
		recovery core.Recovery
		want     want
	}{
		{"replay", core.Rollback, reused}, {"replay", core.Park, reused},
		{"in_flight", core.Rollback, want{http.StatusConflict, ""}}, {"in_flight", core.Park, want{http.StatusConflict, ""}},
		{"outcome_unknown", core.Park, want{http.StatusConflict, wire.ResultUnknown}},
	} {
		key, first := newKey(), app{plainSQL, here.opened}.keyed(r.recovery, handlers[r.name])
		ended := make(chan struct{})
		firsts.Go(func() {
			defer close(ended)
			_ = send(first, key, created) // one of them fails, and two wait
		})
		select {
		case <-entered:
		case <-ended:
		}
		for i, on := range []crowdPool{here, elsewhere} {
			where := []string{"", ", another process"}[i]
			again := app{plainSQL, on.opened}.keyed(r.recovery, handlers["replay"])
			once := func() error { return send(again, key, r.want) }
			if err := once(); err != nil { // it only makes the key known
				return nil, err
			}
			before := on.wire.answers.Load()
			for range 20 {
				if err := once(); err != nil {
					return nil, err
				}
			}
			statements := float64(on.wire.answers.Load()-before) / 20
			sides = append(sides, side{number(statements), "`" + r.recovery.String() + "`, " + r.name + where, once})
		}
	}
	const long = 100 * time.Millisecond
	m := meter{turn: long, rounds: max(1, int(each/long)/len(sides)), warmUp: true, progress: silent}
	f, err := m.compare(comparison{16, sides})
	if err != nil {
		return nil, err
	}
	for _, of := range f {
		rows = append(rows, []string{of.way, ratioOf(f[0], of, turn.rate).String(), of.variant})
	}
	return rows, nil
}

func silent(string, ...any) {}
