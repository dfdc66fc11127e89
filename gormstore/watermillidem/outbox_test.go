package watermillidem_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/watermillidem"
	"github.com/auth19/idem/internal/pgtest"
)

// CONTRACT Q-2
func TestEventCommitsWithTheRows(t *testing.T) {
	each(t, func(b *bench) {
		module := b.module(core.Rollback)
		b.pays(500, module, "a")
		require.Empty(b, b.published(), "rolled back")
		b.pays(402, module, "refused")
		require.Empty(b, b.published(), "the rows are undone, and only the answer commits")
		require.Zero(b, b.rows())
		b.pays(201, module, "a")
		b.pays(201, module, "a")
		require.Len(b, b.published(), 1)
		require.Equal(b, 1, b.rows())
	})
}

// An event has the same id in every attempt, and is no stranger's key.
//
// CONTRACT Q-2
func TestEventID(t *testing.T) {
	each(t, func(b *bench) {
		module := b.module(core.Rollback)
		id := func(key, name string, status int) (id string) {
			b.answers(status, module, key, func(ctx context.Context) {
				event, err := watermillidem.Event(ctx, name, nil)
				require.NoError(b, err)
				derived, _ := core.DeriveCall(ctx, name)
				operation, _ := core.Operation(ctx)
				require.NotEqual(b, derived.UUID(), event.UUID)
				require.Equal(b, event.UUID, watermillidem.EventOf(operation, name, nil).UUID)
				published, err := time.Parse(time.RFC3339Nano, event.Metadata.Get(watermillidem.PublishedAt))
				require.NoError(b, err)
				require.WithinDuration(b, time.Now(), published, time.Minute)
				id = event.UUID
			})
			return id
		}
		first := id("a", "paid", 500)
		require.NotEqual(b, first, id("a", "booked", 500))
		require.Equal(b, first, id("a", "paid", 201))
		require.NotEqual(b, first, id("b", "paid", 201))
	})
}

// Two events of one name have one id, and a consumer drops the second as a duplicate: they are an error, in whatever
// steps of the operation.
//
// CONTRACT Q-2
func TestTwoEventsOfOneName(t *testing.T) {
	each(t, func(b *bench) {
		both := func(ctx context.Context) error {
			for n, name := range []string{"paid", "booked", "paid"} {
				_, err := watermillidem.Event(ctx, name, []byte(`{}`))
				if n == 2 {
					return err
				}
				require.NoError(b, err)
			}
			return nil
		}
		for _, recovery := range []core.Recovery{core.Rollback, core.Park} {
			module := b.module(recovery)
			for range 2 { // attempts
				b.answers(500, module, "a"+recovery.String(), func(ctx context.Context) {
					err := both(ctx)
					require.ErrorIs(b, err, core.ErrSameEvent)
					require.ErrorContains(b, err, `"paid"`)
				})
				if recovery == core.Park {
					break // unknown
				}
			}
		}
		resume := b.module(core.Resume)
		for range 2 { // the second attempt does not run the first step again, and knows its event all the same
			b.answers(500, resume, "steps", func(ctx context.Context) {
				require.NoError(b, gormstore.StepDo(ctx, "one", b.pay))
				require.NoError(b, core.Checkpoint(ctx))
				require.ErrorIs(b, gormstore.StepDo(ctx, "two", b.pay), core.ErrSameEvent)
			})
		}
		require.Len(b, b.published(), 1)

		handle := b.handler(b.inbox("stock"), func(tx *gorm.DB, _ *message.Message) error {
			return both(tx.Statement.Context)
		})
		msg := delivery(b)
		for range 2 {
			require.ErrorIs(b, handle(msg.Copy()), core.ErrSameEvent)
		}
	})
}

// CONTRACT Q-5
func TestEventAboveTheCap(t *testing.T) {
	each(t, func(b *bench) {
		publish := func(ctx context.Context, size int, options ...watermillidem.Option) error {
			publisher, err := watermillidem.Publisher(ctx, b.schema, options...)
			require.NoError(b, err)
			event := watermillidem.EventOf(core.ID{}, "paid", []byte(`"`+strings.Repeat("x", size-2)+`"`))
			return publisher.Publish(topic, watermillidem.EventOf(core.ID{}, "small", []byte(`{}`)), event)
		}
		b.answers(201, b.module(core.Rollback), "a", func(ctx context.Context) {
			require.ErrorIs(b, publish(ctx, watermillidem.DefaultMaxEvent), watermillidem.ErrEventTooLarge, "with its id")
			require.ErrorIs(b, publish(ctx, 900, watermillidem.MaxEvent(900)), watermillidem.ErrEventTooLarge)
		})
		require.Empty(b, b.published(), "not the small one beside it, either")
		b.answers(201, b.module(core.Rollback), "b", func(ctx context.Context) {
			require.NoError(b, publish(ctx, watermillidem.DefaultMaxEvent-200))
			require.NoError(b, publish(ctx, watermillidem.DefaultMaxEvent, watermillidem.MaxEvent(1<<20)))
		})
		require.Len(b, b.published(), 4)
	})
}

// A step that fails after its event has none. The answer is lost after a checkpoint has committed the step; the next attempt
// goes on behind it.
//
// CONTRACT
func TestEventOfAStep(t *testing.T) {
	each(t, func(b *bench) {
		module := b.module(core.Resume)
		b.answers(502, module, "a", func(ctx context.Context) {
			failed := errors.New("the step fails after its event")
			require.ErrorIs(b, gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error { return errors.Join(b.pay(tx), failed) }), failed)
		})
		require.Empty(b, b.published())
		for _, status := range []int{502, 502, 201, 201} {
			b.answers(status, module, "a", func(ctx context.Context) {
				require.NoError(b, gormstore.StepDo(ctx, "book", b.pay))
				require.NoError(b, core.Checkpoint(ctx))
			})
			require.Len(b, b.published(), 1)
			require.Equal(b, 1, b.rows())
		}
	})
}

// An operator settles what nobody knows, and publishes in the place of the handler: one event, under the id that the
// handler would have given it.
//
// CONTRACT
func TestEventOfASettlement(t *testing.T) {
	each(t, func(b *bench) {
		parked, operators := b.module(core.Park), b.module(core.Rollback)
		var operation core.ID
		var id string
		b.answers(502, parked, "payout", func(ctx context.Context) { // its outcome is lost
			operation, _ = core.Operation(ctx)
			event, err := watermillidem.Event(ctx, "paid", nil)
			require.NoError(b, err)
			id = event.UUID
			require.ErrorIs(b, b.publish(ctx, event), watermillidem.ErrNoTransaction, "there is none in Park")
		})
		set := "lease_until = lease_until - 3600000000, deadline_at = deadline_at - 3600000000"
		require.NoError(b, b.db.Exec("UPDATE idempotency_record SET "+set).Error)

		settle := func(status int) {
			b.answers(status, operators, "settle", func(ctx context.Context) {
				_, err := operations.New(operators).Settle(ctx, operation, core.Decision{
					Applied: true, Answer: &core.Answer{Status: 201}, Who: "operator-1", Why: "the provider's list",
				})
				require.NoError(b, err)
				require.NoError(b, b.publish(ctx, watermillidem.EventOf(operation, "paid", []byte(`{}`))))
			})
		}
		settle(500)
		require.Empty(b, b.published())
		settle(200)
		settle(200)
		require.Equal(b, []string{id}, b.published())
	})
}

// CONTRACT
func TestEventOfAKilledAttempt(t *testing.T) {
	t.Parallel()
	b := onPostgres(t)
	module := b.module(core.Rollback)
	w := send(b, module, "a", func(w http.ResponseWriter, r *http.Request) {
		tx := gormstore.Tx(r.Context())
		require.NoError(b, b.pay(tx))
		var pid int
		require.NoError(b, tx.Raw("SELECT pg_backend_pid()").Scan(&pid).Error)
		require.NoError(b, b.db.Exec("SELECT pg_terminate_backend(?)", pid).Error)
		w.WriteHeader(http.StatusCreated)
	})
	require.Equal(b, http.StatusServiceUnavailable, w.Code)
	require.Empty(b, b.published())
	repeat := func() bool {
		return send(b, module, "a", func(w http.ResponseWriter, r *http.Request) {
			require.NoError(b, b.pay(gormstore.Tx(r.Context())))
			w.WriteHeader(http.StatusCreated)
		}).Code == http.StatusCreated
	}
	b.eventually("the old backend is gone", repeat)
	require.True(b, repeat())
	require.Len(b, b.published(), 1)
	require.Equal(b, 1, b.rows())
}

// Without a transaction there is no event: not in the plain database, either.
//
// CONTRACT
func TestPublisherOutsideATransaction(t *testing.T) {
	each(t, func(b *bench) {
		_, err := watermillidem.Publisher(b.Context(), b.schema)
		require.ErrorIs(b, err, watermillidem.ErrNoTransaction)
		_, err = watermillidem.Event(b.Context(), "paid", nil)
		require.ErrorIs(b, err, watermillidem.ErrNoTransaction)

		var late context.Context
		b.answers(201, b.module(core.Rollback), "a", func(ctx context.Context) { late = ctx })
		require.Error(b, b.publish(late, watermillidem.EventOf(core.ID{}, "paid", []byte(`{}`))), "the attempt is over")
		require.Empty(b, b.published())
	})
}

// In a unit test of a handler, events go where its rows go.
func TestPublisherInAUnitTest(t *testing.T) {
	each(t, func(b *bench) {
		tx := b.db.Begin()
		defer tx.Rollback()
		ctx := gormstore.WithTx(b.Context(), tx)
		require.NoError(b, b.publish(ctx, watermillidem.EventOf(core.ID{}, "paid", []byte(`{}`))))
		var n int64
		require.NoError(b, tx.Table("watermill_"+topic).Count(&n).Error)
		require.EqualValues(b, 1, n)
	})
}

// In the mode of pgx for poolers that keep no prepared statements. (watermill-sql does not work in the simple protocol.)
//
// CONTRACT Q-2
func TestPublisherBehindAPooler(t *testing.T) {
	t.Parallel()
	b := onPostgresAt(t, pgtest.URL(t)+"&default_query_exec_mode=describe_exec")
	b.pays(201, b.module(core.Rollback), "a")
	require.Len(b, b.published(), 1)
}
