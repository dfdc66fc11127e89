package main

import (
	"context"
	"errors"
	"fmt"
)

// work is what is asked of the library, and whose cost may grow with the table.
type work struct {
	name string
	do   job
	adds bool // a record
	cold bool // measured as well with nothing in memory
}

var commands = []work{
	{name: "`Park`, first request", do: firstPark(retention, tombstone), adds: true, cold: true},
	{name: "`Rollback`, first request", do: firstRollback, adds: true},
	{name: "replay", do: replay, cold: true},
	{name: "an operation by its id", do: find},
	{name: fmt.Sprintf("the list of %d unknown operations", maxOpen), do: list},
}

// compareSizes tells what a command costs on tables of different sizes.
func (g *growth) compareSizes(ctx context.Context, tables []*database) error {
	results := make([][]*measured, len(commands)) // by command and table
	for i, c := range commands {
		progress("%s", c.name)
		results[i] = make([]*measured, len(tables))
		for j, d := range tables {
			results[i][j] = new(measured)
			if err := new(measured).take(ctx, d, g.clients, 0, g.turn/5, c.do); err != nil { // warms up
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		for round := range g.rounds {
			for j := range tables {
				at := (j + round) % len(tables)
				if err := g.turnOf(ctx, tables[at], results[i][at], c); err != nil {
					return err
				}
			}
		}
	}
	g.report.Heading("What a command costs")
	g.report.Paragraph(`
Through gormstore: a first request claims and completes, with nothing in between. Replays and questions are for any of the
three quarters of the records that are newest, at random. Each turn of first requests begins just after a checkpoint. All
records have been read or written shortly before. First requests add to the tables: the smallest has come to %s.`,
		count(tables[0].records+addedIn(results)))
	head := []string{"", "records", "per second", "p50, ms", "p99, ms", "p50, fewest records = 1", "WAL, bytes each"}
	rows := [][]string{head}
	for i, c := range commands {
		for j, d := range tables {
			rows = append(rows, row(c, d, results[i][j], results[i][0]))
		}
	}
	compressed, err := g.compressed(ctx, tables[len(tables)-1], results[0][0])
	if err != nil {
		return err
	}
	g.report.Table(append(rows, compressed))
	return g.compareCold(ctx, tables, head)
}

// addedIn is how many records have been added to the first table.
func addedIn(results [][]*measured) (n int64) {
	for i, c := range commands {
		if c.adds {
			n += int64(len(results[i][0].latencies))
		}
	}
	return n
}

// compressed is the row of first requests while the server compresses the pages that it writes into its WAL.
func (g *growth) compressed(ctx context.Context, d *database, to *measured) ([]string, error) {
	g.cluster.Exec("ALTER SYSTEM SET wal_compression = on", "SELECT pg_reload_conf()")
	c := commands[0]
	m := new(measured)
	for range g.rounds {
		if err := g.turnOf(ctx, d, m, c); err != nil {
			return nil, err
		}
	}
	g.cluster.Exec("ALTER SYSTEM RESET wal_compression", "SELECT pg_reload_conf()")
	c.name += ", wal_compression on"
	return row(c, d, m, to), nil
}

func (g *growth) turnOf(ctx context.Context, d *database, m *measured, c work) error {
	if c.adds {
		if err := d.settle(ctx); err != nil {
			return err
		}
	}
	if err := m.take(ctx, d, g.clients, 0, g.turn, c.do); err != nil {
		return fmt.Errorf("%s, %d records: %w", c.name, d.records, err)
	}
	return nil
}

func row(c work, d *database, m, to *measured) []string {
	written := ""
	if c.adds {
		written = count(m.writtenEach())
	}
	return []string{c.name, count(d.records), count(m.rate()), ms(m.percentile(0.5)), ms(m.percentile(0.99)),
		fmt.Sprintf("%.2f", float64(m.percentile(0.5))/float64(to.percentile(0.5))), written}
}

// compareCold does it once more with nothing in memory.
func (g *growth) compareCold(ctx context.Context, tables []*database, head []string) error {
	rows := [][]string{head}
	for _, c := range commands {
		if !c.cold {
			continue
		}
		results := make([]*measured, len(tables))
		for j, d := range tables {
			progress("%s, %d records, from the disk", c.name, d.records)
			err := g.forget(ctx, tables)
			if errors.Is(err, errors.ErrUnsupported) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := new(measured).take(ctx, d, g.clients, 0, 0, c.do); err != nil { // connects
				return err
			}
			results[j] = new(measured)
			if err := g.turnOf(ctx, d, results[j], c); err != nil {
				return err
			}
			rows = append(rows, row(c, d, results[j], results[0]))
		}
	}
	g.report.Paragraph(`
The same from the disk: before each turn, of which there is one, the server was started anew and the system was told to
forget its files. The first commands of a turn read what the later ones find in memory.`)
	g.report.Table(rows)
	return nil
}
