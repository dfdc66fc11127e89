package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/internal/benchmarks/report"
	"github.com/auth19/idem/internal/pgtest"
	"github.com/auth19/idem/internal/testhost"
)

// load is a steady load: what docs/operations.md (Sizing) computes from.
type load struct {
	rate   float64       // first requests per second, at random moments
	work   time.Duration // of the handler; in Resume it is a call of a provider
	answer int           // bytes
}

// bytesOf is the disk that a record takes with its index entries, in Resume with those of one call, but for its answer.
var bytesOf = map[core.Recovery]float64{core.Rollback: 600, core.Resume: 900, core.Park: 600}

const (
	// answerRoom is how much disk a byte of an answer takes: three tenths of a page are left for changes. PostgreSQL compresses
	// answers above 2 KB.
	answerRoom = 1.4
	// tombstoneBytes is the disk that a tombstone takes.
	tombstoneBytes = 500
)

// disk is the bytes of a record.
func (l load) disk(r core.Recovery) float64 { return bytesOf[r] + answerRoom*float64(l.answer) }

// connections is how many of the pool are in use on average. A request takes own, beside its handler.
func (l load) connections(r core.Recovery, own time.Duration) float64 {
	if r == core.Rollback {
		return l.rate * (l.work + own).Seconds()
	}
	return 1 + l.rate*own.Seconds() // the one that renews leases
}

// pool is the limit of the pool: peaks of random requests, and the quarter that attempts leave free.
func (l load) pool(r core.Recovery, own time.Duration) int {
	busy := l.connections(r, own)
	return max(4, int(math.Ceil((busy+3*math.Sqrt(busy))*4/3)))
}

// sized is what loads did.
type sized struct {
	pool              int
	record, tombstone float64 // bytes
	steady, above     *tally
}

// tally counts the requests of a load.
type tally struct {
	worked, took atomic.Int64 // nanoseconds: in the handlers; all in all
	sent         atomic.Int64
	samples      int
	held         int // connections, in all samples
	mu           sync.Mutex
	refused      map[string]int // by what they were told
	mostAfter    int            // the longest Retry-After
}

// own is how long a request takes beside its handler, on average.
func (c *tally) own() time.Duration {
	return time.Duration((c.took.Load() - c.worked.Load()) / max(1, c.sent.Load()))
}

// inUse is how many connections were in use, on average.
func (c *tally) inUse() float64 { return float64(c.held) / float64(max(1, c.samples)) }

// size writes records, to measure them, and then sends the load for so long over a pool of the size that it needs, and a
// load that such a pool cannot carry for as long.
func (l load) size(
	t testing.TB, server *pgtest.Cluster, r core.Recovery, each time.Duration, records int,
) (s sized, err error) {
	wide, err := openCrowd(t, server, "", trial{pool: connections})
	if err != nil {
		return s, err
	}
	defer func() { _ = wide.pool.Close() }()
	quiet, err := l.send(wide, r, max(each/4, 100*time.Millisecond)) // how long requests take here
	if err != nil {
		return s, err
	}
	if s.record, s.tombstone, err = l.fill(wide, r, records); err != nil {
		return s, err
	}
	s.pool = l.pool(r, quiet.own())
	narrow, err := openCrowd(t, server, wide.database, trial{pool: s.pool})
	if err != nil {
		return s, err
	}
	defer func() { _ = narrow.pool.Close() }()
	if s.steady, err = l.send(narrow, r, each); err != nil {
		return s, err
	}
	l.rate = 3 * float64(s.pool) / (l.work + quiet.own()).Seconds()
	s.above, err = l.send(narrow, r, each)
	return s, err
}

// app is an app with one route. Its handler works, and writes nothing.
func (l load) app(on crowdPool, r core.Recovery, count *tally) (http.Handler, error) {
	m, err := core.New(core.Config{Store: on.store, Policy: core.Policy{Recovery: r}})
	if err != nil {
		return nil, err
	}
	body := jsonBody(l.answer)
	work := func(context.Context, core.DerivedKey) error {
		defer func(began time.Time) { count.worked.Add(int64(time.Since(began))) }(time.Now())
		time.Sleep(l.work)
		return nil
	}
	return guarded(m, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r == core.Resume {
			if err := core.CallDo(req.Context(), "charge", work, core.Dedup(time.Hour)); err != nil {
				fail(w, err)
				return
			}
		} else {
			_ = work(req.Context(), core.DerivedKey{})
		}
		reply(w, http.StatusCreated, body)
	})), nil
}

// sampleEvery is how often the pool is asked. It is prime to the handlers' times.
const sampleEvery = 1700 * time.Microsecond

// send sends the load for so long.
func (l load) send(on crowdPool, r core.Recovery, each time.Duration) (*tally, error) {
	count := &tally{refused: map[string]int{}}
	app, err := l.app(on, r, count)
	if err != nil {
		return nil, err
	}
	if err := send(app, newKey(), created); err != nil { // what is asked once
		return nil, err
	}
	count.worked.Store(0)
	c := crowd{app: app, trial: trial{patience: 10 * time.Second}}
	defer c.busy.Wait()
	begun := time.Now()
	var sampling sync.WaitGroup
	over := make(chan struct{})
	sampling.Go(func() {
		for tick := time.NewTicker(sampleEvery); ; {
			select {
			case <-over:
				tick.Stop()
				return
			case <-tick.C:
				count.samples++
				count.held += on.pool.Stats().InUse
			}
		}
	})
	for at := time.Duration(0); at < each; at += time.Duration(rand.ExpFloat64() / l.rate * float64(time.Second)) {
		time.Sleep(time.Until(begun.Add(at)))
		c.busy.Go(func() {
			began := time.Now()
			answer := c.try(newKey())
			count.took.Add(int64(time.Since(began)))
			count.sent.Add(1)
			count.note(answer)
		})
	}
	time.Sleep(time.Until(begun.Add(each)))
	close(over)
	sampling.Wait()
	c.busy.Wait()
	return count, nil
}

// note notes a refusal.
func (c *tally) note(answer *sink) {
	if answer != nil && answer.status == http.StatusCreated {
		return
	}
	told, after := "no answer", 0
	if answer != nil {
		told = fmt.Sprintf("%d %s", answer.status, detail.Find(answer.start))
		after, _ = strconv.Atoi(answer.header.Get("Retry-After"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[told]++
	c.mostAfter = max(c.mostAfter, after)
}

var detail = regexp.MustCompile(`"detail":"[^"]*"`)

// fill writes records, so many in ten parts with a VACUUM behind each, as autovacuum does, and returns the bytes of one; and
// those of a tombstone in a table without dead rows.
func (l load) fill(on crowdPool, r core.Recovery, records int) (record, tombstone float64, err error) {
	l.work = 0
	app, err := l.app(on, r, &tally{})
	if err != nil {
		return 0, 0, err
	}
	const parts, clients = 10, 16
	for range parts {
		errs := make([]error, clients)
		var all sync.WaitGroup
		for client := range clients {
			all.Go(func() {
				for range records / parts / clients {
					errs[client] = errors.Join(errs[client], send(app, newKey(), created))
				}
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return 0, 0, err
		}
		if err := on.vacuum(""); err != nil {
			return 0, 0, err
		}
	}
	if record, err = on.bytesEach(); err != nil {
		return 0, 0, err
	}
	if _, err := on.pool.Exec("UPDATE idempotency_record SET expires_at = created_at, due_at = created_at"); err != nil {
		return 0, 0, err
	}
	for {
		swept, err := on.store.Sweep(context.Background(), 500, store.Window{})
		if err != nil {
			return 0, 0, err
		}
		if swept.Tombstones == 0 {
			break
		}
	}
	if err := on.vacuum("FULL"); err != nil {
		return 0, 0, err
	}
	tombstone, err = on.bytesEach()
	return record, tombstone, err
}

func (on crowdPool) vacuum(full string) error {
	for _, table := range []string{"idempotency_record", "idempotency_step"} {
		if _, err := on.pool.Exec("VACUUM " + full + " " + table); err != nil {
			return err
		}
	}
	return nil
}

// bytesEach is the disk of a record, with its indexes and steps.
func (on crowdPool) bytesEach() (each float64, err error) {
	const of = `SELECT (pg_total_relation_size('idempotency_record') + pg_total_relation_size('idempotency_step'))::float8 /
	count(*) FROM idempotency_record`
	err = on.pool.QueryRow(of).Scan(&each)
	return each, err
}

// loads are tried with each recovery.
var loads = []load{{40, 100 * time.Millisecond, 100}, {40, 100 * time.Millisecond, 500}, {40, 100 * time.Millisecond, 1500}}

// trySizing tries the loads, each for so long, and prints a table.
func trySizing(each time.Duration) (err error) {
	rows := [][]string{{"route", "answer", "a request's own time", "connections, predicted; measured", "pool", "sent; refused",
		"bytes of a record, predicted; measured", "of a tombstone", "above: sent; refused", "Retry-After, at most"}}
	failed := testhost.Run(context.Background(), "sizing", func(t testing.TB) {
		server := pgtest.Own(t, "max_connections=200")
		for _, l := range loads {
			for _, r := range []core.Recovery{core.Rollback, core.Resume, core.Park} {
				var s sized
				if s, err = l.size(t, server, r, each, 20000); err != nil {
					return
				}
				own := s.steady.own()
				l.rate = float64(s.steady.sent.Load()) / each.Seconds() // of this run: they come at random
				rows = append(rows, []string{
					"`" + r.String() + "`", strconv.Itoa(l.answer), own.Round(100 * time.Microsecond).String(),
					fmt.Sprintf("%.2f; %.2f", l.connections(r, own), s.steady.inUse()), strconv.Itoa(s.pool),
					fmt.Sprintf("%d; %v", s.steady.sent.Load(), s.steady.refused),
					fmt.Sprintf("%.0f; %.0f", l.disk(r), s.record), fmt.Sprintf("%d; %.0f", tombstoneBytes, s.tombstone),
					fmt.Sprintf("%d; %v", s.above.sent.Load(), s.above.refused), strconv.Itoa(s.above.mostAfter),
				})
				fmt.Fprintln(os.Stderr, strings.Join(rows[len(rows)-1], " | "))
			}
		}
	})
	if err = cmp.Or(failed, err); err != nil {
		return err
	}
	var text report.Report
	text.Table(rows)
	fmt.Print(text.String())
	return nil
}
