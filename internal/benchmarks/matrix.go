package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// matrix says what is measured. All combinations would be thousands of cells. Instead one setting is varied at a time,
// beginning with a small command on PostgreSQL that eight clients send through Gin.
type matrix struct {
	meter
	report   figures
	cost     [][]string // what the report begins with
	only     []string   // the names of the parts; none: all that are not apart
	postgres *database
	sqlite   *database
	t        testing.TB

	many    int   // clients that send at once, where nothing else is said; on SQLite, which has one writer, one does
	clients []int // how many send at once, where that is varied
	spread  int   // how many keys replays are spread over
	sizes   []int // of request and answer in bytes, where that is varied
}

func (x *matrix) open(t testing.TB) (err error) {
	x.t = t
	if x.postgres, err = openPostgres(t); err != nil {
		return err
	}
	if x.postmaster, err = postmasterOf(x.postgres.pool); err != nil {
		return err
	}
	if x.sqlite, err = openSQLite(t); err != nil {
		return err
	}
	return nil
}

func (x *matrix) run() error {
	for _, p := range x.parts() {
		if len(x.only) > 0 && !slices.Contains(x.only, p.name) || len(x.only) == 0 && p.in == nowhere {
			continue
		}
		if err := p.measure(); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		x.report.next(len(x.only) > 0 || p.in == wholly)
	}
	if len(x.cost) > 0 {
		x.report.head.Heading("What it costs")
		columns := []string{"on PostgreSQL", "beside", "commands/s", "the other = 1", "processor, µs"}
		x.report.head.Table(append([][]string{columns[:len(x.cost[0])]}, x.cost...))
		if len(x.cost[0]) == len(columns) {
			x.report.head.Paragraph(`
Processor: app + PostgreSQL, for each command; in brackets the other's.`)
		}
	}
	return nil
}

// part is a part of what is measured.
type part struct {
	name    string // for -only
	measure func() error
	in      place
}

// place says what the page has of a part. With -only, all of it is printed.
type place int

const (
	wholly  place = iota
	inTable       // lines of its first table
	nowhere
)

func (x *matrix) parts() []part {
	return []part{
		{"byhand", x.besideByHand, inTable},
		{"business", x.business, inTable},
		{"links", x.roundTrips, inTable},
		{"clients", x.clientCounts, wholly},
		{"memory", x.memory, wholly},
		{"bodies", x.bodies, wholly},
		{"hash", x.hashing, nowhere},
	}
}

func (x *matrix) partNames() (names []string) {
	for _, p := range x.parts() {
		names = append(names, p.name)
	}
	return names
}

// costs adds a line to the table that the report begins with.
func (x *matrix) costs(what, beside string, of, to measured) {
	row := []string{what, beside, rate(of), ratioOf(of, to).String()}
	if spent := of.processorTime(); spent != "" {
		row = append(row, fmt.Sprintf("%s (%s)", spent, to.processorTime()))
	}
	x.cost = append(x.cost, row)
}

func micros(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Nanoseconds())/1e3) }

// rate writes commands per second with three digits that count.
func rate(m measured) string { return digits(m.rate()) }

func digits(v float64) string {
	switch {
	case v >= 100:
		unit := 1.0
		for v/unit >= 1000 {
			unit *= 10
		}
		return fmt.Sprintf("%.0f", float64(int64(v/unit+0.5))*unit)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// memory compares the adapters, without a database, with their handlers alone.
func (x *matrix) memory() error {
	x.progress("in memory\n")
	body := jsonBody(smallBody)
	var sides []side
	for _, of := range []struct {
		name    string
		service service
	}{
		{"Gin", service{framework: "Gin"}}, {"Echo", service{framework: "Echo"}},
		{"Gin with otelidem", service{framework: "Gin", observed: true}},
	} {
		open := func() (*app, error) {
			s := of.service
			s.store, s.recovery, s.body = memstore.New(), core.Park, body
			return s.open()
		}
		alone, err := open()
		if err != nil {
			return err
		}
		sides = append(sides, bareSide(of.name+", handler with JWT and roles guard", alone))
		for _, k := range []kind{first, replay} {
			sides = append(sides, freshSide(of.name+", "+string(k), k, x.spread, open))
		}
	}
	fiberAlone, fiberFirst, fiberReplay := fiberSides(body, x.spread)
	all, err := x.compare(1, append(sides, fiberAlone, fiberFirst, fiberReplay)...)
	if err != nil {
		return err
	}
	rows := [][]string{{"", "µs above it", "handler = 1", "allocations above it"}}
	const n = 3 // sides of each
	for group := range slices.Chunk(all, n) {
		alone := group[0]
		for _, m := range group[1:] {
			rows = append(rows, []string{m.name, micros(m.each() - alone.each()), ratioOf(alone, m).String(),
				fmt.Sprintf("%.0f", m.mallocs()-alone.mallocs())})
		}
	}
	x.report.Heading("In the process")
	x.report.Paragraph(`
` + "`Park`" + ` in memory, one client, above the same handler with its guards. otelidem: metrics and all spans, not
exported. gofiber's middleware (v3.1.0) knows no principal, command hash or lease.`)
	x.report.Table(rows)
	return nil
}

func (x *matrix) clientsOf(d *database) int {
	if d.db.Name() == "sqlite" {
		return 1
	}
	return x.many
}

// business compares a handler that writes a row, without a key and with each recovery.
func (x *matrix) business() error {
	ways := []struct {
		name     string
		recovery core.Recovery // 0: no key
		work     func(opened) work
		beside   int // the same rows without a key
	}{
		0: {"GORM, no key", 0, gormAlone, 0},
		1: {"SQL, no key", 0, rawAlone, 1},
		2: {"`Rollback`, GORM", core.Rollback, gormRollback, 0},
		3: {"`Rollback`, SQL", core.Rollback, rawRollback, 1},
		4: {"`Park`, a GORM transaction of its own", core.Park, gormAlone, 0},
		5: {"`Resume`, 1 step", core.Resume, oneStep, 0},
		6: {"two transactions, GORM, no key", 0, threeAlone, 6},
		7: {"`Resume`, 3 steps", core.Resume, threeSteps, 6},
	}
	rows := [][]string{{
		"", "PostgreSQL, commands/s", "throughput, without a key = 1", "SQLite, commands/s", "without a key = 1",
	}}
	for _, w := range ways {
		rows = append(rows, []string{w.name})
	}
	for _, d := range []*database{x.postgres, x.sqlite} {
		x.progress("  %s, business transactions\n", d.name)
		sides := make([]side, len(ways))
		for i, w := range ways {
			a, err := cell{recovery: max(w.recovery, core.Rollback), kind: first, work: w.work}.app(d.opened)
			if err != nil {
				return err
			}
			sides[i] = always(w.name, func() error { return a.send(guarded, newKey(), created) })
			if w.recovery == 0 {
				sides[i] = bareSide(w.name, a)
			}
		}
		all, err := x.compare(x.clientsOf(d), sides...)
		if err != nil {
			return err
		}
		for i, w := range ways {
			ratio := "1"
			if w.beside != i {
				ratio = ratioOf(all[i], all[w.beside]).String()
			}
			rows[1+i] = append(rows[1+i], rate(all[i]), ratio)
		}
		for _, i := range []int{2, 7} {
			name, beside := ways[i].name, ways[i].beside
			if d != x.postgres {
				name = d.name + ", " + name
			}
			x.costs(name, ways[beside].name, all[i], all[beside])
		}
	}
	x.report.Heading("A business transaction")
	x.report.Paragraph(`
A handler that writes one row. With three steps it writes a row, calls a provider that answers at once, and changes the
row. %d clients on PostgreSQL; one on SQLite, which has one writer.`, x.many)
	x.report.Table(rows)
	return nil
}

// bodies varies how long request and answer are.
func (x *matrix) bodies() error {
	var firsts, replays []float64
	for _, size := range x.sizes {
		x.progress("bodies of %d bytes\n", size)
		open := func() (*app, error) {
			return service{framework: "Gin", store: memstore.New(), recovery: core.Park, body: jsonBody(size)}.open()
		}
		alone, err := open()
		if err != nil {
			return err
		}
		all, err := x.compare(1, bareSide("handler alone", alone), freshSide("first", first, x.spread, open),
			freshSide("replay", hot, x.spread, open))
		if err != nil {
			return err
		}
		above := []time.Duration{all[1].each() - all[0].each(), all[2].each() - all[0].each()}
		firsts = append(firsts, float64(above[0].Nanoseconds())/1e3)
		replays = append(replays, float64(above[1].Nanoseconds())/1e3)
	}
	return x.report.plot("bodies.svg", "Time above the handler alone, in memory", linePlot{
		x: "bytes of request and answer", y: "µs", at: x.sizes,
		series: []series{{name: "first request", values: firsts}, {name: "replay", values: replays}},
	})
}

// clientCounts varies how many clients send at once.
func (x *matrix) clientCounts() error {
	cells := []cell{
		{recovery: core.Park, kind: first}, {recovery: core.Rollback, kind: first}, {recovery: core.Park, kind: replay},
	}
	rows := [][]string{{"clients"}}
	for _, c := range cells {
		rows[0] = append(rows[0], fmt.Sprintf("`%s`, %s", c.recovery, c.kind))
	}
	lines := make([]series, 0, len(cells))
	for _, c := range cells {
		lines = append(lines, series{name: c.recovery.String() + ", " + string(c.kind)})
	}
	for _, n := range x.clients {
		x.progress("  PostgreSQL, %d clients\n", n)
		sides := make([]side, len(cells))
		for i, c := range cells {
			var err error
			if sides[i], err = c.side(lines[i].name, x.postgres.opened, x.spread); err != nil {
				return err
			}
		}
		all, err := x.compare(n, sides...)
		if err != nil {
			return err
		}
		row := []string{fmt.Sprint(n)}
		for i, m := range all {
			row = append(row, rate(m))
			lines[i].values = append(lines[i].values, m.rate())
		}
		rows = append(rows, row)
	}
	x.report.Heading("How it grows with clients")
	x.report.Paragraph("Commands per second on PostgreSQL, over %d connections.", connections)
	x.report.Table(rows)
	return x.report.plot("clients.svg", "Commands per second on PostgreSQL", linePlot{
		x: "clients", y: "commands per second", at: x.clients, series: lines,
	})
}

// hashing measures the command hash alone.
func (x *matrix) hashing() error {
	rows := [][]string{{"bytes", "JSON, MB/s", "raw, MB/s"}}
	for _, size := range x.sizes {
		x.progress("hashing %d bytes\n", size)
		body := jsonBody(size)
		var sides []side
		for _, contentType := range []string{"application/json", "application/octet-stream"} {
			r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, guarded, bytes.NewReader(body))
			if err != nil {
				return err
			}
			r.Header.Set("Content-Type", contentType)
			sides = append(sides, always(contentType, func() error {
				_, err := core.HashRequest(r, body, 0)
				return err
			}))
		}
		all, err := x.compare(1, sides...)
		if err != nil {
			return err
		}
		row := []string{fmt.Sprint(size)}
		for _, m := range all {
			row = append(row, digits(m.rate()*float64(size)/1e6))
		}
		rows = append(rows, row)
	}
	x.report.Heading("The command hash alone")
	x.report.Paragraph("One client. JSON is compared by meaning (H-2): the same orders as above, an array of items.")
	x.report.Table(rows)
	return nil
}
