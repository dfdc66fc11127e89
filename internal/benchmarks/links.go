package main

import (
	"fmt"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/pgxpipe"
)

// link is a connection to the database with a given latency.
type link struct {
	name      string
	roundTrip time.Duration // of the proxy on the way; 0: there is none
	clients   int
}

var links = []link{
	{"this machine", 0, 16},
	{"1 ms away", time.Millisecond, 4},
}

// onLink opens the database at the other end of a link, without and with a pipeline.
func (x *matrix) onLink(l link) (plain, pipelined opened, err error) {
	plain = x.postgres.opened
	if l.roundTrip > 0 {
		address, err := delayed(x.t, x.postgres.url, l.roundTrip)
		if err != nil {
			return opened{}, opened{}, err
		}
		if plain, err = openPool(x.t, address); err != nil {
			return opened{}, opened{}, err
		}
	}
	pipelined, err = withPipeline(plain)
	return plain, pipelined, err
}

// withPipeline is the same database with another store.
func withPipeline(on opened) (pipelined opened, err error) {
	pipelined = on
	pipelined.store, err = gormstore.New(on.db, gormstore.WithPipeline(pgxpipe.New()))
	return pipelined, err
}

// roundTrips compares Rollback with the plain transaction of a handler, over links of different latency.
func (x *matrix) roundTrips() error {
	x.report.Heading("What the way to the database costs")
	x.report.Paragraph(`
A handler that writes one row in `+"`Rollback`"+`, beside the same transaction without a key, and replays. "Pipelined" is a
store with `+"`gormstore.WithPipeline`"+`. On this machine %d clients send at once. On the link, a proxy makes each round
trip 1 ms longer, and %d clients send at once: there the number of round trips counts.`, links[0].clients, links[1].clients)
	for _, l := range links {
		x.progress("  %s, %d clients\n", l.name, l.clients)
		plain, pipelined, err := x.onLink(l)
		if err != nil {
			return err
		}
		ways := []struct {
			name   string
			on     opened
			cell   cell
			keyed  bool
			beside int // the same rows without a key
		}{
			0: {"GORM, no key", plain, cell{recovery: core.Rollback, kind: first, work: gormAlone}, false, 0},
			1: {"SQL, no key", plain, cell{recovery: core.Rollback, kind: first, work: rawAlone}, false, 1},
			2: {"`Rollback`, GORM", plain, cell{recovery: core.Rollback, kind: first, work: gormRollback}, true, 0},
			3: {"`Rollback`, GORM, pipelined", pipelined, cell{recovery: core.Rollback, kind: first, work: gormRollback}, true, 0},
			4: {"`Rollback`, SQL", plain, cell{recovery: core.Rollback, kind: first, work: rawRollback}, true, 1},
			5: {"`Rollback`, SQL, pipelined", pipelined, cell{recovery: core.Rollback, kind: first, work: rawRollback}, true, 1},
			6: {"replay", plain, cell{recovery: core.Rollback, kind: replay}, true, 0},
			7: {"replay, pipelined", pipelined, cell{recovery: core.Rollback, kind: replay}, true, 0},
		}
		sides := make([]side, len(ways))
		for i, w := range ways {
			if w.keyed {
				if sides[i], err = w.cell.side(w.name, w.on, x.spread); err != nil {
					return err
				}
				continue
			}
			a, err := w.cell.app(w.on)
			if err != nil {
				return err
			}
			sides[i] = bareSide(w.name, a)
		}
		all, err := x.compare(l.clients, sides...)
		if err != nil {
			return err
		}
		if l.roundTrip > 0 {
			x.costs(l.name+", "+ways[5].name, "the transaction without a key", all[5], all[1])
		}
		title := fmt.Sprintf("PostgreSQL, %s, %d clients", l.name, l.clients)
		rows := [][]string{{title, "commands/s", "throughput, without a key = 1"}}
		for i, w := range ways {
			rows = append(rows, []string{w.name, rate(all[i]), ratioOf(all[i], all[w.beside]).String()})
		}
		x.report.Table(rows)
	}
	return nil
}
