package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/auth19/idem/internal/pgtest"
)

// way is a way to carry a command out: with the library, or one that it is compared with.
type way struct {
	name  string // how the report names it
	open  func(app) http.Handler
	first want // the answer of a first request
	again bool // repeats are sent
}

var (
	bare           = way{"bare transaction", app.bare, plain, false}
	oneTransaction = way{"by hand in one transaction", app.oneTransaction, plain, false}
	claimFirst     = way{"a peer's sequence", app.claimFirst, plain, false}
	rollback       = way{"`Rollback`", app.rollback, created, false}
	twoBare        = way{"two bare transactions", app.twoBare, plain, false}
	resume         = way{"`Resume`", app.resume, created, false}

	// These write no row of the app's: they are the same in all styles.
	twoStatements = way{"by hand, INSERT and UPDATE", app.twoStatements, plain, false}
	park          = way{"`Park`", app.park, created, false}
	oneSelect     = way{"one plain SELECT", app.oneSelect, plain, true}
	replay        = way{"replay", app.rollback, created, true}
	sealedReplay  = way{"sealed replay", app.sealedRollback, created, true}
)

// A whole app of Gin and GORM: what a user of the library measures.
var (
	ginBare     = way{"a Gin app without keys", app.ginBare, plain, false}
	ginRollback = way{"`Rollback` in a Gin app", app.ginRollback, created, false}
)

// variant is how all ways of a comparison do what they do.
type variant struct {
	name string
	style
	on opened
}

// The variants.
const (
	inSQL  = "database/sql"
	inGORM = "GORM"
)

// The link to a database in another zone of the same region.
const (
	linkRoundTrip = time.Millisecond
	linkClients   = 4
	// linkLimit is what the bare transaction, three round trips, may take there (p50). Where it takes longer, the proxy does
	// not do what it says, or the machine is too busy, and the round is void.
	linkLimit = 3600 * time.Microsecond
)

// benchmark is one run.
type benchmark struct {
	meter
	clients  int    // that send at once
	spread   int    // how many keys replays are spread over
	commands int    // how many are sent where something is counted
	server   string // PostgreSQL's version
}

// sides opens ways.
func (b *benchmark) sides(v variant, ways ...way) (all []side, err error) {
	for _, w := range ways {
		handler := w.open(app{v.style, v.on})
		send := firsts(handler, w.first)
		if w.again {
			if send, err = replays(handler, b.spread, w.first); err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
		}
		all = append(all, side{v.name, w.name, send})
	}
	return all, nil
}

// run measures everything. The turns of all comparisons together take that long.
func (b *benchmark) run(t testing.TB, total time.Duration) (o outcome, err error) {
	url := pgtest.Own(t).URL()
	here, err := b.here(t, url)
	if err != nil {
		return o, err
	}
	away, err := b.away(t, url)
	if err != nil {
		return o, err
	}
	inFile, err := b.inFile(t)
	if err != nil {
		return o, err
	}
	b.rounds = max(1, int(total/max(b.turn, 1))/(len(here.sides)+len(away.sides)+len(inFile.sides)))
	if o.here, err = b.compare(here); err != nil {
		return o, err
	}
	if o.away, err = b.compare(away); err != nil {
		return o, err
	}
	b.postmaster = 0 // SQLite works in the app
	if o.inFile, err = b.compare(inFile); err != nil {
		return o, err
	}
	o.counts, err = b.count(t)
	return o, err
}

// here compares on this machine.
func (b *benchmark) here(t testing.TB, url string) (c comparison, err error) {
	c.clients = b.clients
	pool, err := openPool(t, url)
	if err != nil {
		return c, err
	}
	if err := pool.pool.QueryRow("SELECT split_part(version(), ' ', 2)").Scan(&b.server); err != nil {
		return c, err
	}
	if b.postmaster, err = postmasterOf(pool.pool); err != nil {
		return c, err
	}
	for _, v := range []variant{{inSQL, plainSQL, pool}, {inGORM, withGORM, pool}} {
		ways := []way{bare, oneTransaction, claimFirst, rollback, twoBare, resume}
		if v.name == inSQL {
			ways = append(ways, twoStatements, park, oneSelect, replay, sealedReplay)
		} else {
			ways = append(ways, ginBare, ginRollback)
		}
		sides, err := b.sides(v, ways...)
		if err != nil {
			return c, err
		}
		c.sides = append(c.sides, sides...)
	}
	return c, nil
}

// away compares over the link.
func (b *benchmark) away(t testing.TB, url string) (c comparison, err error) {
	c.clients = linkClients
	link, err := newProxy(t, url, linkRoundTrip)
	if err != nil {
		return c, err
	}
	pool, err := openPool(t, link.url)
	if err != nil {
		return c, err
	}
	c.sides, err = b.sides(variant{inSQL, plainSQL, pool}, bare, oneTransaction, rollback, twoBare, resume)
	return c, err
}

// inFile compares on SQLite, which has one writer.
func (b *benchmark) inFile(t testing.TB) (c comparison, err error) {
	c.clients = 1
	pool, err := openSQLite(t)
	if err != nil {
		return c, err
	}
	c.sides, err = b.sides(variant{inGORM, withGORM, pool}, bare, oneTransaction, rollback, twoBare, resume)
	return c, err
}
