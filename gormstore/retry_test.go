package gormstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// failAt is a function that gives back numbers and fails at the third with a given SQLSTATE: the rows before it are
// with the client by then.
const failAt = `CREATE FUNCTION fail_at(n int, at int, state text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF n = at THEN RAISE EXCEPTION 'on purpose' USING ERRCODE = state; END IF;
	RETURN n;
END $$`

// answers are how an attempt ends with what its handler answers.
var answers = map[string]func(t *testing.T, tx store.Attempt) error{
	"2xx":           func(t *testing.T, tx store.Attempt) error { return seal(t.Context(), tx, paid(), false) },
	"4xx":           func(t *testing.T, tx store.Attempt) error { return seal(t.Context(), tx, refused(), true) },
	"4xx with rows": func(t *testing.T, tx store.Attempt) error { return seal(t.Context(), tx, refused(), false) },
	"5xx":           func(_ *testing.T, tx store.Attempt) error { return tx.Rollback() },
}

// Errors that ask for a repeat of the whole command, in all the ways in which a handler can get one and swallow it.
//
// CONTRACT X-0
func TestRetryableErrors(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		db := way.fresh("", false)(t)(t)
		execute(t, db, failAt)
		st := newStore(t, db)

		const (
			first = "SELECT fail_at(n, 1, $1) FROM generate_series(1, 3) n"
			third = "SELECT fail_at(n, 3, $1) FROM generate_series(1, 3) n"
		)
		failures := map[string]func(ctx context.Context, state string) error{
			"Exec": func(ctx context.Context, state string) error { return gormstore.Tx(ctx).Exec(first, state).Error },
			"Scan": func(ctx context.Context, state string) error {
				return gormstore.Tx(ctx).Raw(third, state).Scan(&[]int{}).Error
			},
			"Find": func(ctx context.Context, state string) error {
				return gormstore.Tx(ctx).Table("generate_series(1, 3) AS e(id)").
					Where("fail_at(id, 3, ?) > 0", state).Find(&[]effect{}).Error
			},
			"in a savepoint": func(ctx context.Context, state string) error {
				return gormstore.Tx(ctx).Transaction(func(tx *gorm.DB) error { return tx.Raw(third, state).Scan(&[]int{}).Error })
			},
			"QueryRow": func(ctx context.Context, state string) error {
				tx, _ := gormstore.SQLTx(ctx)
				return tx.QueryRowContext(ctx, first, state).Scan(new(int))
			},
			"Query": func(ctx context.Context, state string) error {
				tx, _ := gormstore.SQLTx(ctx)
				rows, err := tx.QueryContext(ctx, third, state)
				if err != nil {
					return errors.Join(errors.New("before the first row"), err)
				}
				defer func() { _ = rows.Close() }()
				for rows.Next() {
				}
				return rows.Err()
			},
		}
		for how, fail := range failures {
			t.Run(how, func(t *testing.T) {
				for end, finish := range answers {
					for _, state := range []string{"40001", "40P01", "55P03", "57014"} {
						if how == "in a savepoint" && !strings.HasPrefix(state, "40") {
							continue // TestOptionalWorkInASavepoint
						}
						t.Run(end+" after "+state, func(t *testing.T) {
							c := command(store.Rollback)
							tx, ctx := beginRow(t, st, c)
							require.ErrorContains(t, fail(ctx, state), state)
							require.ErrorIs(t, finish(t, tx), store.ErrRetryable)
							requireFree(t, st, c)
						})
					}
				}
			})
		}
		require.Zero(t, countEffects(t, db))

		t.Run("an error of the command itself is none of them", func(t *testing.T) {
			for how, fail := range failures {
				c := command(store.Rollback)
				tx, ctx := begin(t, st, c)
				require.Error(t, fail(ctx, "23505"))
				require.NoError(t, seal(t.Context(), tx, refused(), true), how)
				requireCompleted(t, st, c, refused())
			}
		})
	})
}

// meeting makes a function that returns when two statements have called it. They see the other's step of the sequence at once.
const meeting = `CREATE SEQUENCE met;
CREATE FUNCTION meet() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM nextval('met');
	FOR i IN 1..6000 LOOP
		EXIT WHEN (SELECT last_value FROM met) > 1;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RETURN 0;
END $$`

// Two transfers lock the same two accounts, each with one statement and in another order. The error of the one that
// loses comes after its first row.
//
// CONTRACT X-0
func TestDeadlockBetweenRows(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		db := way.fresh("&deadlock_timeout=20ms", false)(t)(t)
		require.NoError(t, db.Create([]effect{{Name: "a"}, {Name: "b"}}).Error)
		execute(t, db, meeting)
		st := newStore(t, db)

		transfer := func(order, second string) error {
			tx, _, err := st.Begin(t.Context(), command(store.Rollback))
			if err != nil {
				return err
			}
			ctx := tx.Bind(t.Context(), nil)
			handle, _ := gormstore.SQLTx(ctx)
			// The columns of a row are computed before it is locked: at the second one, the first one is.
			query := "SELECT id, CASE WHEN name = '" + second + "' THEN meet() END FROM effects ORDER BY id " + order + " FOR UPDATE"
			rows, err := handle.QueryContext(ctx, query) //nolint:rowserrcheck // as a careless handler does it
			if err == nil {
				for rows.Next() {
				}
				_ = rows.Close() //nolint:sqlclosecheck // likewise
			}
			return seal(t.Context(), tx, refused(), true) // "insufficient funds", says a handler that read no row
		}
		results := make(chan error, 2)
		go func() { results <- transfer("ASC", "b") }()
		go func() { results <- transfer("DESC", "a") }()
		one, other := <-results, <-results
		if one == nil {
			one, other = other, one
		}
		require.ErrorIs(t, one, store.ErrRetryable)
		require.NoError(t, other)
	})
}

// conflicts makes every row of a table conflict with others, but at read committed.
const conflicts = `CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE EXCEPTION 'on purpose' USING ERRCODE = '40001';
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER conflict BEFORE INSERT OR UPDATE ON `

// A crowd whose statements fail each other at the app's default isolation comes through: what failed so runs again at
// read committed.
//
// CONTRACT M-6
func TestConflictsEnd(t *testing.T) {
	t.Parallel()
	for _, simple := range []bool{false, true} {
		db := freshPostgres("&default_transaction_isolation=serializable", simple)(t)(t)
		onAll(t, db, 1, conflicts+"idempotency_record FOR EACH ROW EXECUTE FUNCTION conflict()")
		st := newStore(t, db)
		c := command(store.Park)
		ticket := won(t, st, c)
		require.NoError(t, st.Renew(t.Context(), ticket, lease))
		require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Completed, Answer: paid()}))
		requireCompleted(t, st, c, paid())
	}
}
