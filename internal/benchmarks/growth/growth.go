package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/auth19/idem/internal/benchmarks/report"
	"github.com/auth19/idem/internal/pgtest"
)

// plan says what is measured, and for how long.
type plan struct {
	sizes   []int64       // of the tables, in records
	turn    time.Duration // one turn of one measurement
	rounds  int           // how many turns each has
	clients int           // how many send at once
	pace    int           // commands per second of all clients together, where they do not send as fast as they can
	day     time.Duration // of compressed time
	days    int           // of churn
	perDay  int           // commands of such a day
	memory  string        // shared_buffers
}

// growth is one run of a plan.
type growth struct {
	plan
	t       testing.TB
	cluster *pgtest.Cluster
	report  report.Report
}

// start starts the server. Its settings are PostgreSQL's own, but for its memory and what loading a table in bulk asks
// for.
func start(t testing.TB, p plan) (*growth, error) {
	g := &growth{plan: p, t: t, report: report.Report{Figures: true}, cluster: pgtest.Own(t,
		"shared_buffers="+p.memory, "max_wal_size=6GB", "maintenance_work_mem=512MB", "checkpoint_timeout=15min")}
	return g, nil
}

// run measures everything, in the order of the report.
func (g *growth) run(ctx context.Context) error {
	var tables []*database
	for _, n := range g.sizes {
		d, err := g.open(fmt.Sprintf("growth%d", n))
		if err != nil {
			return err
		}
		if err := d.fill(ctx, n, mixed); err != nil {
			return fmt.Errorf("make %d records: %w", n, err)
		}
		tables = append(tables, d)
	}
	if err := g.machine(ctx, tables[0]); err != nil {
		return err
	}
	largest, middle := tables[len(tables)-1], tables[len(tables)/2]
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error { return g.weigh(ctx, tables) },
		func(ctx context.Context) error { return g.compareSizes(ctx, tables) },
		func(ctx context.Context) error { return g.cleanUp(ctx, largest) },
		func(ctx context.Context) error { return g.indexCost(ctx, middle) },
		g.churn,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}
