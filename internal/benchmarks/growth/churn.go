package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// life is a table whose records come and go.
type life struct {
	name    string
	keys    keys
	options string // of the table, beside those of the migration
}

const vacuumEarly = `autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_limit = 2000`

var lives = []life{
	{"UUIDv7 keys", uuidv7, ""},
	{"random keys", random, ""},
	{"UUIDv7, vacuum early", uuidv7, vacuumEarly},
}

// outcome is what became of a table in some days of churn.
type outcome struct {
	before, after, compact weight
	most                   weight // while it lasted
	records                int64  // in the end
	dead, mostDead         int64
	updates, hot           int64
	vacuums                int64
	claims                 int
	swept                  int64
}

// churn runs some days in compressed time. A record has a day of retention and a day as a tombstone, the shortest times
// that a policy allows. The table is in its steady state when the days begin.
func (g *growth) churn(ctx context.Context) ([]outcome, error) {
	g.cluster.Exec("ALTER SYSTEM SET autovacuum_naptime = '1s'", "SELECT pg_reload_conf()") // the least that there is
	outcomes := make([]outcome, len(lives))
	for i, l := range lives {
		progress("churn, %s: %d days of %s", l.name, g.days, g.day)
		d, err := g.open(fmt.Sprintf("churn%d", i), l.keys)
		if err != nil {
			return nil, err
		}
		if l.options != "" {
			if err := d.exec(ctx, "ALTER TABLE idempotency_record SET ("+l.options+")"); err != nil {
				return nil, err
			}
		}
		if outcomes[i], err = g.live(ctx, d); err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		g.drop([]*database{d})
	}
	g.tellChurn(outcomes)
	return outcomes, nil
}

// live lets a table live for some days.
func (g *growth) live(ctx context.Context, d *database) (o outcome, err error) {
	if err := d.fill(ctx, steady(int64(g.perDay), g.day)); err != nil {
		return o, err
	}
	if o.before, err = d.weight(ctx); err != nil {
		return o, err
	}
	sweeper, stop, err := d.sweeping(ctx, g.day/100)
	if err != nil {
		return o, err
	}
	var m measured
	for range 4 * g.days { // four looks a day
		err = m.take(ctx, d, g.clients, g.perSecond(), g.day/4, firstPark(g.day, g.day))
		if err != nil {
			break
		}
		if err = o.look(ctx, d); err != nil {
			break
		}
	}
	if err := errors.Join(err, stop()); err != nil {
		return o, err
	}
	o.claims, o.swept = m.jobs(), sweeper.sum()
	return o, o.end(ctx, d)
}

// perSecond is how many commands of a day there are in a second of compressed time.
func (g *growth) perSecond() int { return int(float64(g.perDay) / g.day.Seconds()) }

// bloat is how many times its smallest size a table takes in the end.
func (o *outcome) bloat() float64 { return float64(o.after.sum()) / float64(o.compact.sum()) }

// look notes the size of the table.
func (o *outcome) look(ctx context.Context, d *database) error {
	w, err := d.weight(ctx)
	if err != nil {
		return err
	}
	if w.sum() > o.most.sum() {
		o.most = w
	}
	err = d.ask(ctx, `SELECT n_dead_tup, n_tup_upd, n_tup_hot_upd, autovacuum_count FROM pg_stat_user_tables
WHERE relname = 'idempotency_record'`, &o.dead, &o.updates, &o.hot, &o.vacuums)
	o.mostDead = max(o.mostDead, o.dead)
	return err
}

// end looks a last time, and then measures the smallest size of the same records.
func (o *outcome) end(ctx context.Context, d *database) (err error) {
	if !wait(ctx, time.Now().Add(time.Second)) { // the server counts with that much delay
		return context.Cause(ctx)
	}
	if err := o.look(ctx, d); err != nil {
		return err
	}
	if o.after, err = d.weight(ctx); err != nil {
		return err
	}
	if err := d.ask(ctx, "SELECT count(*) FROM idempotency_record", &o.records); err != nil {
		return err
	}
	if err := d.exec(ctx, "VACUUM FULL idempotency_record"); err != nil {
		return err
	}
	o.compact, err = d.weight(ctx)
	return err
}

// tellChurn writes the table.
func (g *growth) tellChurn(outcomes []outcome) {
	g.report.Heading("Days of churn")
	g.report.Paragraph(`
%d days, each of which takes %s, with %s commands on `+"`Park`"+` each. A record can be replayed for a day and is a tombstone
for another day. The table begins with two days' records, made in one go, and `+"`Module.Run`"+` sweeps it. autovacuum looks
every second, but works at its own speed: compared with the days it is %s times as slow as in life.`,
		g.days, g.day, count(g.perDay), count(24*time.Hour.Seconds()/g.day.Seconds()))
	rows := [][]string{{""}}
	for _, l := range lives {
		rows[0] = append(rows[0], l.name)
	}
	for _, line := range []struct {
		name string
		of   func(o outcome) string
	}{
		{"commands", func(o outcome) string { return count(o.claims) }},
		{"tombstones made and dropped", func(o outcome) string { return count(o.swept) }},
		{"records in the end", func(o outcome) string { return count(o.records) }},
		{"table, indexes, MB: before", func(o outcome) string { return both(o.before) }},
		{"largest", func(o outcome) string { return both(o.most) }},
		{"in the end", func(o outcome) string { return both(o.after) }},
		{"after VACUUM FULL", func(o outcome) string { return both(o.compact) }},
		{"bytes per record in the end", func(o outcome) string { return count(o.after.sum() / o.records) }},
		{"in the end, after VACUUM FULL = 1", func(o outcome) string {
			return decimals(2)(o.bloat())
		}},
		{"dead rows: most, in the end", func(o outcome) string { return count(o.mostDead) + ", " + count(o.dead) }},
		{"runs of autovacuum", func(o outcome) string { return count(o.vacuums) }},
		{"updates, of these HOT", func(o outcome) string { return count(o.updates) + ", " + count(o.hot) }},
	} {
		row := []string{line.name}
		for _, o := range outcomes {
			row = append(row, line.of(o))
		}
		rows = append(rows, row)
	}
	g.report.Table(rows)
}

func both(w weight) string { return mb(w.table) + ", " + mb(w.indexes) }
