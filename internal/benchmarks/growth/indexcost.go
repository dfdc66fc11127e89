package main

import (
	"context"
	"fmt"
)

// openScope is the index of migration 0006, which MaxOpen asks for.
const openScope = "idempotency_record_open_scope"

// indexCost measures what an index costs the commands of those who have no MaxOpen.
func (g *growth) indexCost(ctx context.Context, d *database) error {
	progress("the index of MaxOpen, %d records", d.records)
	var definition string
	if err := d.ask(ctx, "SELECT pg_get_indexdef('"+openScope+"'::regclass)", &definition); err != nil {
		return err
	}
	sides := []struct {
		name  string
		ready string
		measured
	}{{name: "with the index"}, {name: "without", ready: "DROP INDEX " + openScope}}
	do := firstPark(retention, tombstone)
	if err := new(measured).take(ctx, d, g.clients, 0, g.turn/5, do); err != nil { // warms up
		return err
	}
	const more = 2 // times the rounds: the difference is small
	for round := range more * g.rounds {
		for i := range sides {
			side := &sides[(i+round)%2]
			if side.ready != "" {
				if err := d.exec(ctx, side.ready); err != nil {
					return err
				}
			}
			if err := d.settle(ctx); err != nil {
				return err
			}
			if err := side.take(ctx, d, g.clients, 0, g.turn, do); err != nil {
				return err
			}
			if side.ready != "" {
				if err := d.exec(ctx, definition); err != nil {
					return err
				}
			}
		}
	}
	g.report.Heading("The index of MaxOpen")
	with := ratio(&sides[0].measured, &sides[1].measured)
	g.report.Paragraph(`
First requests on `+"`Park`"+` in the table with %s records, with and without the partial index of migration 0006, in turns.
With it there are %.2f times as many per second (%.2f to %.2f, the worst and the best of %d rounds).`,
		count(d.records), with.All, with.Low, with.High, more*g.rounds)
	rows := [][]string{{"", "per second", "p50, ms", "p99, ms", "WAL, bytes each"}}
	for i := range sides {
		m := &sides[i].measured
		rows = append(rows, []string{sides[i].name, count(m.rate()), ms(m.percentile(0.5)), ms(m.percentile(0.99)),
			count(m.writtenEach())})
	}
	g.report.Table(rows)
	return d.hasIndex(ctx, openScope)
}

// hasIndex is nil where the index is there as it was.
func (d *database) hasIndex(ctx context.Context, name string) error {
	var valid bool
	if err := d.ask(ctx, "SELECT indisvalid FROM pg_index WHERE indexrelid = '"+name+"'::regclass", &valid); err != nil {
		return err
	}
	if !valid {
		return fmt.Errorf("%s: the index %s is not valid", d.name, name)
	}
	return nil
}
