package main

import (
	"context"
	"encoding/json"
	"fmt"
)

// weight is what the table of records takes on disk, in bytes.
type weight struct {
	table   int64 // with its maps and what is stored out of line
	indexes map[string]int64
}

func (w weight) index() (sum int64) {
	for _, size := range w.indexes {
		sum += size
	}
	return sum
}

func (w weight) sum() int64 { return w.table + w.index() }

func (d *database) weight(ctx context.Context) (w weight, err error) {
	w.indexes = map[string]int64{}
	if err := d.ask(ctx, "SELECT pg_table_size('idempotency_record')", &w.table); err != nil {
		return w, err
	}
	rows, err := d.pool.QueryContext(ctx, `SELECT c.relname, pg_relation_size(c.oid)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = 'idempotency_record'::regclass`)
	if err != nil {
		return w, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		var size int64
		if err := rows.Scan(&name, &size); err != nil {
			return w, err
		}
		w.indexes[name] = size
	}
	return w, rows.Err()
}

// pagesOfLookUp is how many pages a search by id reads, from the memory of the server or from elsewhere: one of each
// level of the primary key, and the record's.
func (d *database) pagesOfLookUp(ctx context.Context) (int64, error) {
	id := idOf(0)
	explain := fmt.Sprintf(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT body FROM idempotency_record WHERE id = '\x%x'`,
		id[:])
	var text []byte
	for range 2 { // the first one reads the server's own tables as well
		if err := d.ask(ctx, explain, &text); err != nil {
			return 0, err
		}
	}
	var plans []struct {
		Plan struct {
			NodeType string `json:"Node Type"`
			Hit      int64  `json:"Shared Hit Blocks"`
			Read     int64  `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal(text, &plans); err != nil {
		return 0, err
	}
	plan := plans[0].Plan
	if plan.NodeType != "Index Scan" {
		return 0, fmt.Errorf("%s: a record is found by %s", d.name, plan.NodeType)
	}
	return plan.Hit + plan.Read, nil
}

// few are enough to weigh a kind of records.
const few = 100_000

// weigh tells how large the tables are.
func (g *growth) weigh(ctx context.Context, tables []*database) error {
	g.report.Heading("How large the table is")
	g.report.Paragraph(`
Made in one go, vacuumed, indexes built afterwards: as small as they can be. Answers of %d bytes and one header. Of the
first tables, one record in %d is a tombstone, and up to %d are unknown; the last two have one kind of records only. A
look-up is that of a record by its id.`, bodyBytes, perTombstone, maxOpen)
	rows := [][]string{{"records", "table, MB", "primary key, MB", "index of expiry, MB", "other indexes, MB",
		"bytes per record", "of these in indexes", "pages of a look-up"}}
	add := func(title string, d *database) error {
		w, err := d.weight(ctx)
		if err != nil {
			return err
		}
		pages, err := d.pagesOfLookUp(ctx)
		if err != nil {
			return err
		}
		key, expires := w.indexes["idempotency_record_pkey"], w.indexes["idempotency_record_expires"]
		rows = append(rows, []string{title, mb(w.table), mb(key), mb(expires), mb(w.index() - key - expires),
			count(w.sum() / d.records), count(w.index() / d.records), count(pages)})
		return nil
	}
	for _, d := range tables {
		if err := add(count(d.records), d); err != nil {
			return err
		}
	}
	n := min(few, tables[len(tables)-1].records)
	for _, kind := range []struct {
		name   string
		layout layout
	}{{"answers", answers}, {"tombstones", tombstones}} {
		d, err := g.open(kind.name)
		if err != nil {
			return err
		}
		if err := d.fill(ctx, n, kind.layout); err != nil {
			return err
		}
		if err := add(count(n)+" "+kind.name, d); err != nil {
			return err
		}
	}
	g.report.Table(rows)
	return nil
}
