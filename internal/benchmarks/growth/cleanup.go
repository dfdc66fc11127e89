package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/auth19/idem/core"
)

// traffic is four first requests for each replay.
func traffic(ctx context.Context, d *database) error {
	if rand.N(5) == 0 {
		return replay(ctx, d)
	}
	return firstPark(retention, tombstone)(ctx, d)
}

// cleanUp measures what a sweep does alone and beside traffic, and what it does to the traffic.
func (g *growth) cleanUp(ctx context.Context, d *database) error {
	progress("sweep, %d records", d.records)
	alone, err := g.sweepAlone(ctx, d)
	if err != nil {
		return err
	}
	g.report.Heading("Cleanup")
	g.report.Paragraph(`
The table with %s records, of which %s were past retention and %s tombstones past their time.
`+"`Module.Run`"+` sweeps as in an app, %d of each kind at a time.
Alone, it sweeps %s records per second: %s made tombstones, %s dropped. Then beside %d clients, who send four
first requests for each replay: as fast as they can, and %s per second in all. The times of the latter begin when a command
is due.`,
		count(d.records), count(d.records/perDue), count(d.records/perTombstone), core.DefaultSweepBatch,
		count(alone.rate()), count(float64(alone.tombstones)/alone.took.Seconds()),
		count(float64(alone.dropped)/alone.took.Seconds()), g.clients, count(g.pace))

	all := alone
	rows := [][]string{{"", "commands per second", "p50, ms", "p99, ms", "p99.9, ms", "swept per second"}}
	for _, speed := range []struct {
		name string
		pace int
	}{{"as fast as they can", 0}, {count(g.pace) + " per second", g.pace}} {
		var without, with measured
		var beside swept
		if err := new(measured).take(ctx, d, g.clients, speed.pace, g.turn/5, traffic); err != nil { // warms up
			return err
		}
		for range g.rounds {
			if err := d.settle(ctx); err != nil {
				return err
			}
			if err := without.take(ctx, d, g.clients, speed.pace, g.turn, traffic); err != nil {
				return err
			}
			if err := d.settle(ctx); err != nil {
				return err
			}
			during := func() error { return with.take(ctx, d, g.clients, speed.pace, g.turn, traffic) }
			if err := beside.add(ctx, d, during); err != nil {
				return err
			}
		}
		all.tombstones += beside.tombstones
		all.dropped += beside.dropped
		line := func(name string, m *measured, swept string) []string {
			return []string{speed.name + name, count(m.rate()), ms(m.percentile(0.5)), ms(m.percentile(0.99)),
				ms(m.percentile(0.999)), swept}
		}
		rows = append(rows, line(", no sweep", &without, ""), line(", with a sweep", &with, count(beside.rate())))
	}
	g.report.Table(rows)
	g.report.Paragraph("In the end, %s and %s of them were left. Where none is left, a sweep was faster than told.",
		count(d.records/perDue-all.tombstones), count(d.records/perTombstone-all.dropped))
	return nil
}

// sweepAlone measures a sweep while nothing else happens.
func (g *growth) sweepAlone(ctx context.Context, d *database) (alone swept, err error) {
	if err := d.settle(ctx); err != nil {
		return swept{}, err
	}
	err = alone.add(ctx, d, func() error {
		if !wait(ctx, time.Now().Add(time.Duration(g.rounds)*g.turn)) {
			return context.Cause(ctx)
		}
		return nil
	})
	return alone, err
}

// swept is what sweeps did.
type swept struct {
	tombstones, dropped int64
	took                time.Duration
}

// rate is records per second.
func (s swept) rate() float64 { return float64(s.tombstones+s.dropped) / s.took.Seconds() }

// add sweeps while something else is done.
func (s *swept) add(ctx context.Context, d *database, during func() error) error {
	begun := time.Now()
	sweeper, stop, err := d.sweeping(ctx, time.Hour)
	if err != nil {
		return err
	}
	failed := during()
	err = stop()
	s.took += time.Since(begun)
	s.tombstones += sweeper.tombstones.Load()
	s.dropped += sweeper.dropped.Load()
	if failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	return nil
}
