package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/gormstore"
)

// What people write themselves: a table of keys, an INSERT that does nothing if the key is known, an UPDATE with the
// answer, and a SELECT for a repeat. It compares no commands, has no scope, no lease and no retention; where a key is
// committed before its answer and the handler dies, the key stays in flight for ever.

const byHandTable = `CREATE TABLE IF NOT EXISTS by_hand (key text PRIMARY KEY, status int, headers text, body bytea)`

const (
	insertKey    = `INSERT INTO by_hand (key) VALUES ($1) ON CONFLICT DO NOTHING`
	updateAnswer = `UPDATE by_hand SET status = $2, headers = $3, body = $4 WHERE key = $1`
	selectAnswer = `SELECT status, headers, body FROM by_hand WHERE key = $1`
)

// errKnown says that a key is not new.
var errKnown = errors.New("the key is known")

func claim(ctx context.Context, tx gormstore.DBTX, key string) error {
	inserted, err := tx.ExecContext(ctx, insertKey, key)
	if err != nil {
		return err
	}
	if n, err := inserted.RowsAffected(); n == 1 || err != nil {
		return err
	}
	return errKnown
}

func record(ctx context.Context, tx gormstore.DBTX, key string) error {
	headers, err := json.Marshal(http.Header{"Content-Type": {"application/json"}})
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, updateAnswer, key, http.StatusCreated, string(headers), payload)
	return err
}

// byHand is an app that does such work for a new key, and repeats the answer for one that is known.
func (a app) byHand(do work) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := handle(w, r, do)
		if errors.Is(err, errKnown) {
			err = a.replay(w, r)
		}
		if err != nil {
			fail(w, err)
		}
	})
}

// replay answers from the table of keys.
func (a app) replay(w http.ResponseWriter, r *http.Request) error {
	var status sql.NullInt32
	var headers sql.NullString
	var body []byte
	row := a.on.pool.QueryRowContext(r.Context(), selectAnswer, r.Header.Get(wire.HeaderKey))
	if err := row.Scan(&status, &headers, &body); err != nil {
		return err
	}
	if !status.Valid {
		reply(w, http.StatusConflict, nil)
		return nil
	}
	header := w.Header()
	if err := json.Unmarshal([]byte(headers.String), &header); err != nil {
		return err
	}
	w.WriteHeader(int(status.Int32))
	_, err := w.Write(body)
	return err
}

// bare is the app's transaction, without a key.
func (a app) bare() http.Handler { return unkeyed(a.insert) }

// twoBare are two transactions of the app with a call between them that takes no time, without a key.
func (a app) twoBare() http.Handler {
	return unkeyed(func(ctx context.Context, key string) error {
		if err := a.insert(ctx, key); err != nil {
			return err
		}
		return a.transact(ctx, a.on, func(tx session) error { return tx.update(ctx, key) })
	})
}

func (a app) insert(ctx context.Context, key string) error {
	return a.transact(ctx, a.on, func(tx session) error { return tx.insert(ctx, key) })
}

// oneTransaction is what one writes by hand where all is in one database: key, row and answer commit together.
func (a app) oneTransaction() http.Handler {
	return a.byHand(func(ctx context.Context, key string) error {
		return a.transact(ctx, a.on, func(tx session) error {
			if err := claim(ctx, tx.byHand(), key); err != nil {
				return err
			}
			if err := tx.insert(ctx, key); err != nil {
				return err
			}
			return record(ctx, tx.byHand(), key)
		})
	})
}

// claimFirst is what other packages do: the key is committed alone, and row and answer commit together.
func (a app) claimFirst() http.Handler {
	return a.byHand(func(ctx context.Context, key string) error {
		if err := claim(ctx, a.on.pool, key); err != nil {
			return err
		}
		return a.transact(ctx, a.on, func(tx session) error {
			if err := tx.insert(ctx, key); err != nil {
				return err
			}
			return record(ctx, tx.byHand(), key)
		})
	})
}

// twoStatements has no transaction and no row: the key is committed, then the answer.
func (a app) twoStatements() http.Handler {
	return a.byHand(func(ctx context.Context, key string) error {
		if err := claim(ctx, a.on.pool, key); err != nil {
			return err
		}
		return record(ctx, a.on.pool, key)
	})
}

// oneSelect looks for the answer first.
func (a app) oneSelect() http.Handler {
	first := a.twoStatements()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch err := a.replay(w, r); {
		case errors.Is(err, sql.ErrNoRows):
			first.ServeHTTP(w, r)
		case err != nil:
			fail(w, err)
		}
	})
}
