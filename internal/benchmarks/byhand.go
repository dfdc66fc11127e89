package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// byHandPath is the route of an app that has no library for its keys. It has the guards of the other two.
const byHandPath = "/v1/transfers"

// byHand is what people write themselves: an INSERT that does nothing if the key is known, the handler, an UPDATE with
// the answer, and a SELECT for a repeat. It has no lease, no command hash, no scope and no retention: if a handler dies,
// its key stays in flight for ever.
type byHand struct {
	on            opened
	inTransaction bool // the key, one row of the app and the answer commit together
	looksFirst    bool // a SELECT before the INSERT: a repeat is one statement, a first request has one more
}

const byHandTable = `CREATE TABLE IF NOT EXISTS by_hand (key text PRIMARY KEY, status int, content_type text, answer bytea)`

func (h byHand) app() (*app, error) {
	if _, err := h.on.pool.ExecContext(context.Background(), byHandTable); err != nil {
		return nil, err
	}
	return service{framework: "Gin", store: h.on.store, recovery: core.Park, body: jsonBody(smallBody), byHand: &h}.open()
}

func (h byHand) serve(c *gin.Context, answer []byte) {
	if err := h.answer(c, answer); err != nil {
		c.String(http.StatusInternalServerError, err.Error())
	}
}

func (h byHand) answer(c *gin.Context, answer []byte) error {
	if _, err := io.Copy(io.Discard, c.Request.Body); err != nil {
		return err
	}
	ctx, key := c.Request.Context(), c.GetHeader(core.DefaultHeader)
	if h.looksFirst {
		if found, err := h.replay(c, key); found || err != nil {
			return err
		}
	}
	run := h.run
	if h.inTransaction {
		run = h.runInTransaction
	}
	isFirst, err := run(ctx, h.on.pool, key, answer)
	if err != nil {
		return err
	}
	if !isFirst {
		_, err := h.replay(c, key)
		return err
	}
	c.Data(http.StatusCreated, "application/json", answer)
	return nil
}

func (h byHand) runInTransaction(ctx context.Context, _ gormstore.DBTX, key string, answer []byte) (
	isFirst bool, err error,
) {
	tx, err := h.on.pool.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	if isFirst, err = h.run(ctx, tx, key, answer); !isFirst || err != nil {
		return false, err
	}
	return true, tx.Commit()
}

func (h byHand) run(ctx context.Context, db gormstore.DBTX, key string, answer []byte) (isFirst bool, err error) {
	inserted, err := db.ExecContext(ctx, `INSERT INTO by_hand (key) VALUES ($1) ON CONFLICT DO NOTHING`, key)
	if err != nil {
		return false, err
	}
	if n, err := inserted.RowsAffected(); n == 0 || err != nil {
		return false, err
	}
	if h.inTransaction {
		if err := insertRaw(ctx, h.on, db, key); err != nil {
			return false, err
		}
	}
	_, err = db.ExecContext(ctx, `UPDATE by_hand SET status = $2, content_type = $3, answer = $4 WHERE key = $1`,
		key, http.StatusCreated, "application/json", answer)
	return true, err
}

func (h byHand) replay(c *gin.Context, key string) (found bool, err error) {
	var status sql.NullInt32
	var contentType sql.NullString
	var answer []byte
	const recorded = `SELECT status, content_type, answer FROM by_hand WHERE key = $1`
	err = h.on.pool.QueryRowContext(c.Request.Context(), recorded, key).
		Scan(&status, &contentType, &answer)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case !status.Valid:
		c.Status(http.StatusConflict)
	default:
		c.Data(int(status.Int32), contentType.String, answer)
	}
	return true, nil
}

// side sends requests of a kind.
func (h byHand) side(name string, k kind, spread int) (side, error) {
	a, err := h.app()
	if err != nil {
		return side{}, err
	}
	next := newKey
	if k == replay {
		known := make([]string, spread)
		for i := range known {
			known[i] = newKey()
			if err := a.send(byHandPath, known[i], plain); err != nil {
				return side{}, err
			}
		}
		next = func() string { return known[rand.IntN(spread)] }
	}
	return always(name, func() error { return a.send(byHandPath, next(), plain) }), nil
}

// besideByHand compares the library with what people write themselves.
func (x *matrix) besideByHand() error {
	const clients = 16
	x.progress("  beside what one writes by hand, %d clients\n", clients)
	one := x.postgres.opened
	pipelined, err := withPipeline(one)
	if err != nil {
		return err
	}
	park, row := cell{recovery: core.Park, kind: first}, cell{recovery: core.Rollback, kind: first, work: rawRollback}
	repeats := func(c cell) cell { c.kind = replay; return c }
	ways := []struct {
		name   string
		beside int // the way by hand; itself: it is one
		hand   byHand
		on     opened
		cell   cell
	}{
		0:  {"INSERT, UPDATE", 0, byHand{}, one, park},
		1:  {"`Park`, first request", 0, byHand{}, one, park},
		2:  {"INSERT, SELECT", 2, byHand{}, one, repeats(park)},
		3:  {"`Park`, replay", 2, byHand{}, one, repeats(park)},
		4:  {"SELECT first", 4, byHand{looksFirst: true}, one, repeats(park)},
		5:  {"`Park`, replay", 4, byHand{}, one, repeats(park)},
		6:  {"all in one transaction", 6, byHand{inTransaction: true}, one, row},
		7:  {"`Rollback`, first request", 6, byHand{}, one, row},
		8:  {"`Rollback`, first request, pipelined", 6, byHand{}, pipelined, row},
		9:  {"BEGIN, INSERT, ROLLBACK, SELECT", 9, byHand{inTransaction: true}, one, repeats(row)},
		10: {"`Rollback`, replay", 9, byHand{}, one, repeats(row)},
	}
	sides := make([]side, len(ways))
	for i, w := range ways {
		if w.hand.on = w.on; w.beside == i {
			sides[i], err = w.hand.side(w.name, w.cell.kind, x.spread)
		} else {
			sides[i], err = w.cell.side(w.name, w.on, x.spread)
		}
		if err != nil {
			return err
		}
	}
	all, err := x.compare(clients, sides...)
	if err != nil {
		return err
	}
	rows := [][]string{{"", "commands/s", "by hand", "by hand, commands/s", "throughput, by hand = 1"}}
	for i, w := range ways {
		if hand := w.beside; hand != i {
			x.costs(w.name, "by hand: "+ways[hand].name, all[i], all[hand])
			rows = append(rows, []string{w.name, rate(all[i]), ways[hand].name, rate(all[hand]), ratioOf(all[i], all[hand]).String()})
		}
	}
	x.report.Heading("Beside what one would write by hand")
	x.report.Paragraph(`
PostgreSQL, %d clients, Gin, the same guards and pool. By hand there is a table of keys, an INSERT that does nothing where
the key is known, an UPDATE with the answer, and a SELECT for a repeat: no lease, no command hash, no scope. In
`+"`Rollback`"+` the handler writes one row, in `+"`Park`"+` nothing.`, clients)
	x.report.Table(rows)
	return nil
}
