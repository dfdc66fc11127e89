package main

import "context"

// weight is what the table of records takes on disk, in bytes.
type weight struct {
	table   int64 // with its maps and what is stored out of line
	indexes int64
}

func (w weight) sum() int64 { return w.table + w.indexes }

func (d *database) weight(ctx context.Context) (w weight, err error) {
	err = d.ask(ctx, "SELECT pg_table_size('idempotency_record'), pg_indexes_size('idempotency_record')", &w.table, &w.indexes)
	return w, err
}

// answers and tombstones hold one kind of records only.
func answers(n int64) contents {
	c := mixed(n)
	c.tombstones, c.due, c.unknown = 0, 0, 0
	return c
}

func tombstones(n int64) contents {
	c := answers(n)
	c.tombstones = n
	return c
}

// weigh tells how much a record takes, and so what a table takes whose churn makes it bloat times as large.
func (g *growth) weigh(ctx context.Context, bloat float64) error {
	rows := [][]string{{"bytes per record", "table", "indexes", "together"}}
	var each [2]float64
	for i, kind := range []struct {
		name     string
		contents contents
	}{{"answers", answers(g.few)}, {"tombstones", tombstones(g.few)}} {
		d, err := g.open(kind.name, uuidv7)
		if err != nil {
			return err
		}
		if err := d.fill(ctx, kind.contents); err != nil {
			return err
		}
		w, err := d.weight(ctx)
		if err != nil {
			return err
		}
		rows = append(rows, []string{kind.name, count(w.table / d.records), count(w.indexes / d.records),
			count(w.sum() / d.records)})
		each[i] = float64(w.sum()) / float64(d.records)
		g.drop([]*database{d})
	}
	g.report.Heading("Disk")
	g.report.Paragraph(`
%s records of one kind, made in one go: as small as they can be. Answers have %d bytes and one header.`,
		count(g.few), bodyBytes)
	g.report.Table(rows)
	g.report.Paragraph(`
What that makes for each command per second, times the %.2f of the days of churn:`, bloat)
	rows = [][]string{{"", "records, million", "GB"}}
	for _, p := range []struct {
		name                  string
		retention, tombstones float64 // days
	}{
		{"the defaults: 3 days, tombstones of 30 days", 3, 30},
		{"[timed keys](../timed-keys.md): 3 days, no tombstones", 3, 0},
		{"the least: 1 day, tombstones of 1 day", 1, 1},
	} {
		const perDay = 86_400
		rows = append(rows, []string{p.name, decimals(2)((p.retention + p.tombstones) * perDay / 1e6),
			decimals(2)((p.retention*each[0] + p.tombstones*each[1]) * perDay * bloat / 1e9)})
	}
	g.report.Table(rows)
	return nil
}
