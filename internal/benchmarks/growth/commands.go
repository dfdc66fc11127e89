package main

import (
	"context"
	"fmt"
)

// work is a job of the library whose cost may grow with the table.
type work struct {
	name  string
	do    job
	adds  bool // a record
	apart bool // each job reaches another process
}

var commands = []work{
	{name: "replays of the last hour's keys", do: replayLastHour, apart: true},
	{name: "replays of all keys", do: replayAll, apart: true},
	{name: fmt.Sprintf("lists of %d unknown operations", maxUnknown), do: list},
	{name: "first requests, `Park`", do: firstPark(retention, tombstone), adds: true},
	{name: "first requests, `Rollback`", do: firstRollback, adds: true},
}

// tellCommands says what the tables of commands have in common.
func (g *growth) tellCommands() {
	g.report.Heading("What a command costs")
	g.report.Paragraph(`
The columns are the numbers of records in the table; in brackets, how many times the first column it is. Commands go
through gormstore, with nothing between claim and answer. Of the records, one in %d is a tombstone, one in %d is past
retention, and up to %d are unknown; all others can be replayed and were made at an even pace. All have been read or written
shortly before. Each replay reaches one of %s processes, which has not seen its key: an INSERT, and a SELECT. Where the
process has seen the key, it is a SELECT alone: [performance](../performance.md). Each turn of first requests begins just after
a checkpoint, when most full pages are written to the WAL. First requests add to the tables, and come last. The p99 is that
of the median turn.`,
		perTombstone, perDue, maxUnknown, count(g.processes))
}

// compareSizes tells what a command costs on tables of different sizes.
func (g *growth) compareSizes(ctx context.Context, tables []*database) error {
	head := []string{tables[0].keys.name + " keys"}
	for _, d := range tables {
		head = append(head, count(d.records))
	}
	rows := [][]string{head}
	for _, w := range commands {
		results, err := g.compare(ctx, w, tables)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		line := func(name string, format func(float64) string, of func(m *measured) float64) {
			rows = append(rows, besideFirst(w.name+": "+name, results, format, of))
		}
		line("per second", count, (*measured).rate)
		line("p99, ms", decimals(2), func(m *measured) float64 { return millis(m.percentile(0.99)) })
		if w.adds {
			line("WAL, bytes each", count, func(m *measured) float64 { return m.each(m.written) })
		}
		if w.adds && tables[0].inspects {
			line("without full pages", count, func(m *measured) float64 { return m.each(m.written - m.pages) })
		}
	}
	g.report.Table(rows)
	return nil
}

// compare lets the tables take turns.
func (g *growth) compare(ctx context.Context, w work, tables []*database) ([]*measured, error) {
	progress("%s keys, %s", tables[0].keys.name, w.name)
	results := make([]*measured, len(tables))
	for i, d := range tables {
		results[i] = new(measured)
		if err := new(measured).take(ctx, d, g.clients, 0, g.turn/5, w.do); err != nil { // warms up
			return nil, err
		}
	}
	for round := range g.rounds {
		for i := range tables {
			at := (i + round) % len(tables)
			d, m := tables[at], results[at]
			if w.apart {
				if err := d.startProcesses(ctx, g.processes); err != nil {
					return nil, err
				}
			}
			take := func() error { return m.take(ctx, d, g.clients, 0, g.turn, w.do) }
			if w.adds {
				take = func() error { return m.takeAndAdd(ctx, d, g.clients, g.turn, w.do) }
			}
			if err := take(); err != nil {
				return nil, err
			}
			d.apart = nil
		}
	}
	return results, nil
}

// besideFirst returns a line of a table: a figure of each result, and its ratio to the first one.
func besideFirst[T any](name string, results []T, format func(float64) string, of func(T) float64) []string {
	row := []string{name, format(of(results[0]))}
	for _, r := range results[1:] {
		row = append(row, fmt.Sprintf("%s (%.2f)", format(of(r)), of(r)/of(results[0])))
	}
	return row
}
