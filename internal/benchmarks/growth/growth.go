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
	sizes     []int64       // of the tables, in records
	turn      time.Duration // one turn of one measurement
	rounds    int           // how many turns each has
	clients   int           // how many send at once
	processes int           // so many that hardly any of them gets a key twice in one turn, even with the smallest table
	pace      int           // commands per second of all clients together, where they do not send as fast as they can
	day       time.Duration // of compressed time
	days      int           // of churn
	perDay    int           // commands of such a day
	few       int64         // records that are enough to weigh a kind of them
	memory    string        // shared_buffers
}

// growth is one run of a plan.
type growth struct {
	plan
	t       testing.TB
	cluster *pgtest.Cluster
	report  report.Report
}

// start starts the server. It has PostgreSQL's default settings, except for memory and for loading a table in bulk.
func start(t testing.TB, p plan) (*growth, error) {
	g := &growth{plan: p, t: t, report: report.Report{Figures: true}, cluster: pgtest.Own(t,
		"shared_buffers="+p.memory, "max_wal_size=6GB", "maintenance_work_mem=512MB", "checkpoint_timeout=15min")}
	return g, nil
}

// run measures everything. It takes one kind of keys after the other, because the tables of both do not fit into memory
// together.
func (g *growth) run(ctx context.Context) error {
	var sweeps []*cleaned
	for i, k := range []keys{uuidv7, random} {
		tables, err := g.fill(ctx, k)
		if err != nil {
			return err
		}
		if i == 0 {
			if err := g.machine(ctx, tables[0]); err != nil {
				return err
			}
			g.tellCommands()
		}
		if err := g.compareSizes(ctx, tables); err != nil {
			return err
		}
		swept, err := g.cleanUp(ctx, tables[len(tables)-1])
		if err != nil {
			return err
		}
		sweeps = append(sweeps, swept)
		g.drop(tables)
	}
	g.tellCleanUp(sweeps)
	outcomes, err := g.churn(ctx)
	if err != nil {
		return err
	}
	return g.weigh(ctx, outcomes[0].bloat())
}

// fill makes a table of each size.
func (g *growth) fill(ctx context.Context, k keys) (tables []*database, err error) {
	for _, n := range g.sizes {
		d, err := g.open(fmt.Sprintf("growth_%s_%d", k.name, n), k)
		if err != nil {
			return nil, err
		}
		if err := d.fill(ctx, mixed(n)); err != nil {
			return nil, fmt.Errorf("make %d records: %w", n, err)
		}
		tables = append(tables, d)
	}
	return tables, nil
}
