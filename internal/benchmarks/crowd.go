package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/cutproxy"
	"github.com/auth19/idem/internal/pgtest"
)

// wired counts what an app sees of its database.
type wired struct{ connections, answers atomic.Int64 }

// dial is for pgx.
func (w *wired) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.connections.Add(1)
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &counted{Conn: conn, wire: w}, err
}

type counted struct {
	net.Conn
	wire     *wired
	messages messages
}

// Read implements [net.Conn].
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.wire.answers.Add(int64(c.messages.ready(p[:n])))
	return n, err
}

// crowdPool is an app's pool on a database of its own.
type crowdPool struct {
	opened
	database string // past all proxies
	wire     *wired
	silence  func()
	link     *proxy
}

// openCrowd opens a database; "": a new one.
func openCrowd(t testing.TB, server *pgtest.Cluster, database string, tr trial) (on crowdPool, err error) {
	target, err := url.Parse(server.URL())
	if err != nil {
		return on, err
	}
	if on.database = database; database == "" {
		name := "crowd" + strconv.FormatUint(keys.Add(1), 10)
		server.Exec("CREATE DATABASE " + name)
		target.Path = "/" + name
		on.database = target.String()
	}
	address := on.database
	switch {
	case tr.link > 0:
		on.link, err = newProxy(t, address, 0) // until slowDown
		if err != nil {
			return on, err
		}
		address = on.link.url
	case tr.silent:
		link, err := cutproxy.New(target.Host, nil)
		if err != nil {
			return on, err
		}
		t.Cleanup(link.Close)
		on.silence, target.Host = link.SilenceAll, link.Addr()
		address = target.String()
	}
	migrated, err := openPool(t, on.database)
	if err != nil {
		return on, err
	}
	_, err = migrated.pool.Exec("CREATE TABLE IF NOT EXISTS effects (key text NOT NULL)")
	if err != nil {
		return on, err
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return on, err
	}
	on.wire = &wired{}
	config.DialFunc = on.wire.dial
	on.opened, err = openConfig(t, config, tr.pool)
	return on, err
}

// slowDown begins with a slow link, where connections have been used before or, with a cold pool, are gone.
func (c *crowd) slowDown() error {
	if c.link == 0 {
		return nil
	}
	quiet := &crowd{trial: trial{clients: 3 * c.pool / 4, patience: c.patience}, app: c.app, out: &crowdOutcome{}}
	quiet.send(time.Second)
	quiet.busy.Wait()
	if c.cold {
		c.on.pool.SetMaxIdleConns(0)
		c.on.pool.SetMaxIdleConns(c.pool)
	}
	return c.on.link.slowDown(c.link)
}

// crowdOutcome is what became of a crowd.
type crowdOutcome struct {
	mu             sync.Mutex
	capacity       float64 // a second, with 16 clients; 0: not measured
	took           time.Duration
	first, firstOK int // commands, and those that succeeded at once
	ok             int // commands that have succeeded
	twice          int // that had more than one effect
	lost, unknown  int
	warnings       int
	connections    int64 // opened after the first second
	goroutines     int
	refused, asked []time.Duration
	over           bool
}

func (o *crowdOutcome) note(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.over {
		change()
	}
}

func (o *crowdOutcome) goodRate() float64 { return float64(o.ok) / o.took.Seconds() }

func (o *crowdOutcome) row(than float64) []string {
	over := ""
	if than > 0 {
		over = fmt.Sprintf("%.2f", o.goodRate()/than)
	}
	return []string{
		fmt.Sprintf("%.0f %% of %d", 100*float64(o.firstOK)/float64(max(o.first, 1)), o.first), fmt.Sprintf("%.1f", o.goodRate()),
		over, strconv.Itoa(o.twice), strconv.Itoa(o.unknown), strconv.Itoa(o.lost), strconv.FormatInt(o.connections, 10),
		strconv.Itoa(o.warnings), p99(o.refused), p99(o.asked), strconv.Itoa(o.goroutines),
	}
}

func p99(all []time.Duration) string {
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return all[len(all)*99/100].Round(time.Millisecond).String()
}

// Observe implements [core.Observer].
func (o *crowdOutcome) Observe(_ context.Context, e core.Event) {
	o.note(func() {
		switch e.Kind {
		case core.EventLeaseLost:
			o.lost++
		case core.EventUnknown:
			o.unknown++
		}
		if e.Kind.IsWarning() {
			o.warnings++
		}
	})
}

// crowd is a trial of one way.
type crowd struct {
	trial
	on   crowdPool
	app  http.Handler
	out  *crowdOutcome
	busy sync.WaitGroup // requests, also those whose client has left
}

// run sends the crowd to one way.
func (tr trial) run(t testing.TB, server *pgtest.Cluster, way string, each time.Duration) (*crowdOutcome, error) {
	on, err := openCrowd(t, server, "", tr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = on.pool.Close() }()
	c := &crowd{trial: tr, on: on, out: &crowdOutcome{over: true}}
	if c.patience == 0 {
		c.patience = 2 * time.Second
	}
	ctx, stop := context.WithCancel(context.Background())
	defer c.busy.Wait()
	defer stop()
	if c.app, err = c.open(ctx, way); err != nil {
		return nil, err
	}
	for range 10 { // what a store tries before its first claim is no part of it
		if first := c.try(newKey()); first != nil && first.status == http.StatusCreated {
			break
		}
	}
	if err := c.slowDown(); err != nil {
		return nil, err
	}
	if tr.load > 0 {
		quiet := &crowd{trial: trial{clients: 16, patience: c.patience}, app: c.app, out: &crowdOutcome{}}
		quiet.send(2 * time.Second)
		c.out.capacity = quiet.out.goodRate()
		c.rate = tr.load * c.out.capacity
	}
	for range tr.neighbours {
		c.busy.Go(func() {
			for time.Sleep(each / 3); ctx.Err() == nil; { // there are leases by then
				_, _ = on.pool.ExecContext(ctx, "SELECT pg_sleep(0.005)")
			}
		})
	}
	c.busy.Go(func() { c.ask(ctx) })
	if tr.locked || tr.silent {
		c.busy.Go(func() { c.disturb(each) })
	}
	c.out.mu.Lock()
	c.out.over = false
	c.out.mu.Unlock()
	c.send(each)
	stop()
	c.busy.Wait()
	err = on.onceMore(&c.out.twice)
	return c.out, err
}

// onceMore counts commands with more than one effect.
func (on crowdPool) onceMore(twice *int) error {
	return on.pool.QueryRow("SELECT count(*) FROM (SELECT FROM effects GROUP BY key HAVING count(*) > 1) AS twice").Scan(twice)
}

// open makes the app. Where it has several ways, commands take turns.
func (c *crowd) open(ctx context.Context, way string) (http.Handler, error) {
	const effect = "INSERT INTO effects SELECT $1 FROM pg_sleep(0.02)"
	work := func(ctx context.Context) error {
		select {
		case <-time.After(c.call):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	alone := func(ctx context.Context, key string) error {
		if err := work(ctx); err != nil {
			return err
		}
		tx, err := c.on.pool.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, effect, key); err != nil {
			return err
		}
		return tx.Commit()
	}
	if way == bareWay {
		return unkeyed(alone), nil
	}
	ways := map[core.Recovery]func(ctx context.Context, key string) error{
		core.Rollback: func(ctx context.Context, key string) error {
			tx, _ := gormstore.SQLTx(ctx)
			_, err := tx.ExecContext(ctx, effect, key)
			return err
		},
		core.Resume: func(ctx context.Context, key string) error {
			call := func(ctx context.Context, _ core.DerivedKey) error { return work(ctx) }
			if err := core.CallDo(ctx, "charge", call, core.Dedup(time.Hour)); err != nil {
				return err
			}
			return gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error { return tx.Exec(effect, key).Error })
		},
		core.Park: alone,
	}
	var apps []http.Handler
	for recovery, do := range ways {
		if !slices.Contains(strings.Split(way, ", "), recovery.String()) {
			continue
		}
		policy := c.policy
		policy.Recovery = recovery
		m, err := core.New(core.Config{Store: c.on.store, Policy: policy, Observer: c.out})
		if err != nil {
			return nil, err
		}
		c.busy.Go(func() { _ = m.Run(ctx) })
		apps = append(apps, guarded(m, unkeyed(do)))
	}
	var turn atomic.Uint64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		apps[turn.Add(1)%uint64(len(apps))].ServeHTTP(w, r)
	}), nil
}

// disturb does what is wrong with the database.
func (c *crowd) disturb(each time.Duration) {
	time.Sleep(each / 3)
	if c.silent {
		c.on.silence()
		return
	}
	admin, err := sql.Open("pgx", c.on.database)
	if err != nil {
		return
	}
	defer func() { _ = admin.Close() }()
	tx, err := admin.Begin()
	if err != nil {
		return
	}
	defer func() { _ = tx.Rollback() }()
	_, _ = tx.Exec("LOCK TABLE idempotency_record IN ACCESS EXCLUSIVE MODE")
	time.Sleep(each / 3)
}

// ask is a route of the app that only reads.
func (c *crowd) ask(ctx context.Context) {
	for ctx.Err() == nil {
		begun := time.Now()
		err := c.on.pool.QueryRowContext(ctx, "SELECT 1").Scan(new(int))
		took := time.Since(begun)
		c.out.note(func() {
			if err == nil {
				c.out.asked = append(c.out.asked, took)
			}
			c.out.goroutines = max(c.out.goroutines, runtime.NumGoroutine())
		})
		time.Sleep(20 * time.Millisecond)
	}
}

// send sends commands for so long. What ends later does not count.
func (c *crowd) send(each time.Duration) {
	begun, before := time.Now(), int64(0)
	if c.on.wire != nil {
		before = c.on.wire.connections.Load()
	}
	over := begun.Add(each)
	if c.rate > 0 {
		for n := 0; time.Now().Before(over); n++ {
			time.Sleep(time.Until(begun.Add(time.Duration(float64(n) / c.rate * float64(time.Second)))))
			c.busy.Go(func() { c.command(over) })
		}
	}
	for range c.clients {
		c.busy.Go(func() {
			for time.Now().Before(over) {
				c.command(over)
			}
		})
	}
	time.Sleep(time.Until(over))
	c.out.note(func() {
		c.out.over, c.out.took = true, time.Since(begun)
		if c.on.wire != nil {
			c.out.connections = c.on.wire.connections.Load() - before
		}
	})
}

// command sends a command until it has succeeded, four times at most.
func (c *crowd) command(over time.Time) {
	key := newKey()
	for try := range 4 {
		begun := time.Now()
		answer := c.try(key)
		ok, took := answer != nil && answer.status == http.StatusCreated, time.Since(begun)
		c.out.note(func() {
			if try == 0 {
				c.out.first++
			}
			switch {
			case ok && try == 0:
				c.out.firstOK++
				c.out.ok++
			case ok:
				c.out.ok++
			case answer != nil:
				c.out.refused = append(c.out.refused, took)
			}
		})
		if ok {
			return
		}
		after := time.Second
		if answer != nil {
			if told, err := strconv.Atoi(answer.header.Get("Retry-After")); err == nil {
				after = time.Duration(told) * time.Second
			}
		}
		after += rand.N(after / 2)
		if time.Now().Add(after).After(over) {
			return
		}
		time.Sleep(after)
	}
}

// try sends it once; nil: the client has left.
func (c *crowd) try(key string) *sink {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	defer time.AfterFunc(c.patience+c.call, leave).Stop() // a deadline would be the handler's, too
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(payload))
	if err != nil {
		return nil
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, wire.HeaderKey: {key}}
	answered := make(chan *sink, 1)
	c.busy.Go(func() {
		w := &sink{header: make(http.Header, 8)}
		c.app.ServeHTTP(w, r)
		answered <- w
	})
	select {
	case w := <-answered:
		return w
	case <-ctx.Done():
		return nil
	}
}
