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
		return replayAll(ctx, d)
	}
	return firstPark(retention, tombstone)(ctx, d)
}

// cleaned has the results of a sweep with a large backlog, alone and beside traffic, and those of the traffic.
type cleaned struct {
	d             *database
	alone, beside swept
	without, with measured
}

// cleanUp measures a sweep. The table cannot be used for anything else afterwards.
func (g *growth) cleanUp(ctx context.Context, d *database) (*cleaned, error) {
	progress("sweep, %s keys, %d records", d.keys.name, d.records)
	c := &cleaned{d: d}
	if err := new(measured).take(ctx, d, g.clients, g.pace, g.turn/5, traffic); err != nil { // warms up
		return nil, err
	}
	for range 2*g.rounds - 1 { // a stall of the disk must not decide
		if err := d.settle(ctx); err != nil {
			return nil, err
		}
		if err := c.without.take(ctx, d, g.clients, g.pace, 2*g.turn, traffic); err != nil {
			return nil, err
		}
		if err := d.settle(ctx); err != nil {
			return nil, err
		}
		err := c.beside.add(ctx, d, func() error { return c.with.take(ctx, d, g.clients, g.pace, 2*g.turn, traffic) })
		if err != nil {
			return nil, err
		}
	}
	if err := d.settle(ctx); err != nil {
		return nil, err
	}
	return c, c.alone.add(ctx, d, func() error {
		if !wait(ctx, time.Now().Add(2*g.turn)) {
			return context.Cause(ctx)
		}
		return nil
	})
}

// tellCleanUp writes the table.
func (g *growth) tellCleanUp(all []*cleaned) {
	c := all[0]
	g.report.Heading("Sweeps")
	g.report.Paragraph(`
The table with %s records, of which %s are past retention and %s are tombstones past their time. `+"`Module.Run`"+` sweeps
as in an app, up to %d records at a time, beside %s commands per second of %d clients, who send four first requests on
`+"`Park`"+` for each replay. The time of a command begins when it is due.`,
		count(c.d.records), count(c.d.due), count(c.d.tombstones), core.DefaultSweepBatch, count(g.pace), g.clients)
	rows := [][]string{{"", "commands per second", "p50, ms", "p99, ms", "p99.9, ms", "swept per second"}}
	for _, c := range all {
		line := func(name string, m *measured, swept string) {
			rows = append(rows, []string{c.d.keys.name + " keys, " + name, count(m.rate()), ms(m.percentile(0.5)),
				ms(m.percentile(0.99)), ms(m.percentile(0.999)), swept})
		}
		line("no sweep", &c.without, "")
		line("with a sweep", &c.with, count(c.beside.rate()))
		rows = append(rows, []string{c.d.keys.name + " keys, only a sweep", "", "", "", "", count(c.alone.rate())})
	}
	g.report.Table(rows)
	for _, c := range all {
		g.report.Paragraph("With %s keys, %s and %s were left in the end. Where none is left, a sweep was faster than told.",
			c.d.keys.name, count(c.d.due-c.alone.tombstones-c.beside.tombstones),
			count(c.d.contents.tombstones-c.alone.dropped-c.beside.dropped))
	}
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
