//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// trial is one run.
type trial struct {
	options
	room     *room
	programs programs
	say      func(format string, args ...any)
}

func (t trial) run(ctx context.Context, out io.Writer) error {
	t.say("starting etcd and three nodes")
	c, err := startCluster(ctx, t.room, t.programs, t.mode == modeSync)
	if err != nil {
		return err
	}
	address, end, err := t.address(ctx, c)
	if err != nil {
		return err
	}
	defer end()
	t.say("starting two apps, and their provider")
	apps, provider, err := t.startApps(ctx, address)
	if err != nil {
		return err
	}
	l, err := newLoad(ctx, apps)
	if err != nil {
		return err
	}
	defer l.balancer.CloseIdleConnections()

	result := result{options: t.options, date: time.Now()}
	err = t.underLoad(ctx, l, func() (err error) {
		result.failovers, result.paused, err = t.killPrimaries(ctx, c, l.tally)
		return err
	})
	if err != nil {
		return err
	}
	for _, a := range append(apps, provider) {
		if a.hasEnded() {
			return fmt.Errorf("%s has ended:\n%s", a.name, a.log())
		}
	}
	if err := t.count(ctx, l, apps[0], provider, &result); err != nil {
		return err
	}
	if err := result.print(out); err != nil {
		return err
	}
	return result.verdict()
}

// address is the DATABASE_URL of the apps. What it needs runs until end is called.
func (t trial) address(ctx context.Context, c *cluster) (url string, end func(), err error) {
	if !t.pgbouncer {
		return c.url("app", "shop", c.addresses()...), func() {}, nil
	}
	r, err := startRouter(c, c.primary(ctx))
	if err != nil {
		return "", nil, err
	}
	pooler, err := startPgBouncer(t.room, t.programs.pgbouncer, c.password, r)
	if err != nil {
		r.close()
		return "", nil, err
	}
	return c.url("app", "shop", pooler) + "&default_query_exec_mode=simple_protocol", r.close, nil
}

// startApps starts an app on Gin and one on Echo, which share the database, and the service that both pay refunds
// through. That one has a database of its own: it does not forget what a failover loses.
func (t trial) startApps(ctx context.Context, address string) (apps []*app, provider *app, err error) {
	provider, err = startApp(ctx, t.room, "echo", "provider", "DATABASE_URL=sqlite:"+t.room.path("provider.db"))
	if err != nil {
		return nil, nil, err
	}
	for _, framework := range []string{"gin", "echo"} {
		a, err := startApp(ctx, t.room, framework, framework, "DATABASE_URL="+address, "PROVIDER_URL="+provider.url,
			"PROVIDER_TOKEN="+provider.tokens["customer-1"])
		if err != nil {
			return nil, nil, err
		}
		apps = append(apps, a)
	}
	return apps, provider, nil
}

// underLoad does something while the load runs, and returns when all that was sent has its answer.
func (t trial) underLoad(ctx context.Context, l *load, do func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	enough := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { l.run(ctx, enough) })
	err := do()
	if err != nil {
		cancel() // no need to wait for answers
	}
	close(enough)
	running.Wait()
	return err
}

// killPrimaries kills one primary after the other. The next one dies when the cluster is whole again.
func (t trial) killPrimaries(ctx context.Context, c *cluster, seen *tally) (failovers, paused int, err error) {
	r := rand.New(rand.NewPCG(t.seed, 0))
	begun := time.Now()
	for failovers < t.kills && (failovers == 0 || time.Since(begun) < t.duration) {
		// Every second time the standbys fall behind before the primary dies. Both random numbers are drawn each time, so
		// that the later ones do not depend on it.
		rest, lag := 5*time.Second+upTo(r, 5*time.Second), 100*time.Millisecond+upTo(r, 400*time.Millisecond)
		if err := sleep(ctx, rest); err != nil {
			return failovers, paused, err
		}
		if failovers%2 == 0 {
			lag = 0
		} else {
			paused++
		}
		if err := t.failOver(ctx, c, seen, lag); err != nil {
			return failovers, paused, err
		}
		failovers++
	}
	return failovers, paused, sleep(ctx, 5*time.Second) // of normal life at the end
}

// failOver kills the primary, waits until another one has taken over and serves, and brings the dead one back.
func (t trial) failOver(ctx context.Context, c *cluster, seen *tally, lag time.Duration) error {
	old, err := c.awaitHealth(ctx)
	if err != nil {
		return err
	}
	before := ""
	if lag > 0 {
		before = fmt.Sprintf(", %v after its standbys were cut off", lag.Round(time.Millisecond))
		if err := old.stopReplication(); err != nil {
			return err
		}
		if err := sleep(ctx, lag); err != nil {
			return err
		}
	}
	if err := old.kill(); err != nil {
		return err
	}
	killed := time.Now()
	t.say("killed %s%s, after %d answers", old.Name, before, seen.acknowledged())
	primary, err := c.awaitOther(ctx, old)
	if err != nil {
		return err
	}
	t.say("%s is the primary, after %.1f s", primary.Name, time.Since(killed).Seconds())
	answers := seen.acknowledged()
	if err := await(ctx, "there are answers", func() bool { return seen.acknowledged() > answers+clients }); err != nil {
		return fmt.Errorf("service has not resumed: %w", err)
	}
	t.say("there are answers again, after %.1f s", time.Since(killed).Seconds())
	if err := old.start(); err != nil {
		return err
	}
	_, err = c.awaitHealth(ctx)
	t.say("the cluster is whole, after %.1f s", time.Since(killed).Seconds())
	return err
}

// count compares, repeats everything, and compares again.
func (t trial) count(ctx context.Context, l *load, apps, provider *app, r *result) (err error) {
	r.intents, r.acknowledged, r.outage = l.tally.intents, l.tally.acknowledged(), l.tally.outage
	r.unanswered = l.tally.errs
	t.say("counting")
	if r.first, err = t.compare(ctx, l.tally, apps, provider); err != nil {
		return err
	}
	r.attempts, r.replays = l.attempts.Load(), l.replays.Load()
	t.say("repeating all %d commands", r.acknowledged)
	if r.others, err = l.repeat(ctx); err != nil {
		return err
	}
	r.second, err = t.compare(ctx, l.tally, apps, provider)
	return err
}

func (t trial) compare(ctx context.Context, seen *tally, apps, provider *app) (counts, error) {
	booked, err := apps.ledger(ctx)
	if err != nil {
		return counts{}, err
	}
	charged, err := provider.ledger(ctx)
	return count(seen.intents, seen.all(), booked, charged), err
}

// upTo is a random time below limit.
func upTo(r *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(limit)))
}

// sleep waits, unless ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
