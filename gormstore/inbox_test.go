package gormstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/internal/pgtest"
)

// stockInbox is what most tests use.
var stockInbox = inbox.Config{Group: "stock", BrokerRetention: 7 * 24 * time.Hour}

func newInbox(t *testing.T, db *gorm.DB, cfg inbox.Config) *inbox.Inbox {
	t.Helper()
	box := try(inbox.New(db, cfg)).ok(t)
	return box
}

// message returns a new message.
func message() inbox.Message {
	return inbox.Message{Source: "payments", ID: rand.Text(), Payload: []byte(`{"amount":"10.00"}`)}
}

// reused is another message under the same id.
func reused(m inbox.Message) inbox.Message {
	m.Payload = []byte(`{"amount":"99.00"}`)
	return m
}

// stock is a handler with one row.
func stock(tx *gorm.DB) error { return tx.Create(&effect{Name: "stock"}).Error }

// never is a handler that must not run.
func never(t *testing.T) func(*gorm.DB) error {
	return func(*gorm.DB) error {
		t.Error("the handler runs")
		return nil
	}
}

// requireProcessed checks that the message is processed, by now, and once.
func requireProcessed(t *testing.T, box *inbox.Inbox, m inbox.Message) {
	t.Helper()
	require.NoError(t, box.Process(t.Context(), m, never(t)))
}

// requireUnprocessed checks that nothing has stayed of a delivery: the next one is processed.
func requireUnprocessed(t *testing.T, db *gorm.DB, box *inbox.Inbox, m inbox.Message) {
	t.Helper()
	before := countEffects(t, db)
	require.NoError(t, box.Process(t.Context(), m, stock))
	require.Equal(t, before+1, countEffects(t, db))
}

// requireIdle checks that no connection is kept, but the one by which a store on SQLite owns its file, and the one over
// which a store on PostgreSQL renews leases.
func requireIdle(t *testing.T, db *gorm.DB) {
	t.Helper()
	pool := try(db.DB()).ok(t)
	const kept = 1
	eventually(t, "all connections are given back", func() bool { return pool.Stats().InUse <= kept })
}

// CONTRACT Q-1
func TestInboxProcessesOnce(t *testing.T) {
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		var duplicates []string
		cfg := stockInbox
		cfg.Duplicate = func(_ context.Context, m inbox.Message) { duplicates = append(duplicates, m.ID) }
		box, m := newInbox(t, db, cfg), message()
		require.NoError(t, box.Process(t.Context(), m, stock))
		requireProcessed(t, box, m)
		require.Equal(t, []string{m.ID}, duplicates)

		require.ErrorIs(t, box.Process(t.Context(), reused(m), never(t)), inbox.ErrReused)
		require.Len(t, duplicates, 1, "another payload is no duplicate")
		requireProcessed(t, box, m)
		require.Equal(t, 1, countEffects(t, db))
		requireIdle(t, db)
	})
}

// Group, source and id are told apart, wherever one ends and the next begins.
//
// CONTRACT Q-1
func TestInboxScope(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		keys := map[core.ID]bool{}
		n := 0
		for _, name := range [][3]string{{"a", "b", "c"}, {"ab", "c", "d"}, {"a", "bc", "d"}, {"a", "b", "cd"}} {
			cfg := stockInbox
			cfg.Group = name[0]
			m := message()
			m.Source, m.ID = name[1], name[2]
			box := newInbox(t, db, cfg)
			require.NoError(t, box.Process(t.Context(), m, func(tx *gorm.DB) error {
				key, ok := core.Origin(tx.Statement.Context)
				require.True(t, ok)
				keys[key] = true
				return stock(tx)
			}))
			requireProcessed(t, box, m)
			n++
		}
		require.Equal(t, n, countEffects(t, db))
		require.Len(t, keys, n)
		_, ok := core.Origin(t.Context())
		require.False(t, ok)
	})
}

// A second delivery does not wait for the first one, with a connection in its hand.
//
// CONTRACT Q-1
func TestInboxSimultaneousDeliveries(t *testing.T) {
	onEvery(t, func(t *testing.T, d database, db *gorm.DB) {
		box, m := newInbox(t, db, stockInbox), message()
		running, release := make(chan struct{}), make(chan struct{})
		first := later(func() error {
			return box.Process(t.Context(), m, func(tx *gorm.DB) error {
				close(running)
				<-release
				return stock(tx)
			})
		})
		<-running
		require.ErrorIs(t, box.Process(patient(t), m, never(t)), inbox.ErrBusy)
		another := newInbox(t, db, stockInbox)
		require.ErrorIs(t, another.Process(patient(t), m, never(t)), inbox.ErrBusy)
		if d.shared {
			requireUnprocessed(t, db, box, message()) // other messages go on
		}
		close(release)
		if err := <-first; err != nil {
			require.ErrorIs(t, err, core.ErrRetryable) // serializable: for the message that overtook it
			requireUnprocessed(t, db, box, m)
		}
		requireProcessed(t, box, m)
		requireIdle(t, db)
	})
}

// Deliveries of many messages at once, over two pools: the losing delivery sees a duplicate, or gets ErrBusy.
//
// CONTRACT Q-1
func TestInboxStorm(t *testing.T) {
	t.Parallel()
	const messages, deliveries = 20, 8
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			open := d.fresh(t)
			db := open(t)
			inboxes := []*inbox.Inbox{newInbox(t, db, stockInbox)}
			if d.shared {
				inboxes = append(inboxes, newInbox(t, open(t), stockInbox))
			}
			all := make([]inbox.Message, messages)
			for i := range all {
				all[i] = message()
			}
			var ran atomic.Int32
			for _, err := range atOnce(messages*deliveries, func(i int) error {
				for {
					err := inboxes[i%len(inboxes)].Process(t.Context(), all[i/deliveries], func(tx *gorm.DB) error {
						ran.Add(1)
						return stock(tx)
					})
					// Serializable transactions may fail together; nothing of them stays.
					if !errors.Is(err, inbox.ErrBusy) && !errors.Is(err, core.ErrRetryable) {
						return err
					}
				}
			}) {
				require.NoError(t, err)
			}
			require.Equal(t, messages, countEffects(t, db))
			require.GreaterOrEqual(t, int(ran.Load()), messages)
			requireIdle(t, db)
		})
	}
}

// CONTRACT Q-1
func TestInboxHandlerFails(t *testing.T) {
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		errHandler := errors.New("no stock")
		box, m := newInbox(t, db, stockInbox), message()
		err := box.Process(t.Context(), m, func(tx *gorm.DB) error { return errors.Join(stock(tx), errHandler) })
		require.ErrorIs(t, err, errHandler)
		require.NotErrorIs(t, err, core.ErrRetryable)
		require.Zero(t, countEffects(t, db))
		requireIdle(t, db)
		require.PanicsWithValue(t, "no stock", func() {
			_ = box.Process(t.Context(), m, func(tx *gorm.DB) error {
				_ = stock(tx)
				panic("no stock")
			})
		})
		require.Zero(t, countEffects(t, db))
		requireIdle(t, db)
		requireUnprocessed(t, db, box, m)
		requireProcessed(t, box, m)
	})
}

// A handler that says nothing of an error has not processed the message.
//
// CONTRACT Q-1
func TestInboxSwallowedErrors(t *testing.T) {
	db := parallelPostgres(t)
	box := newInbox(t, db, stockInbox)
	for state, want := range map[string]error{
		"23505": core.ErrAborted, "42P01": core.ErrAborted, "53100": core.ErrAborted, // COMMIT would roll back and report nothing
		"40001": core.ErrRetryable, "40P01": core.ErrRetryable, "55P03": core.ErrRetryable,
	} {
		t.Run(state, func(t *testing.T) {
			m := message()
			raise := fmt.Sprintf("DO $$ BEGIN RAISE EXCEPTION 'on purpose' USING ERRCODE = '%s'; END $$", state)
			err := box.Process(t.Context(), m, func(tx *gorm.DB) error {
				require.NoError(t, stock(tx))
				require.Error(t, tx.Exec(raise).Error)
				return nil
			})
			require.ErrorIs(t, err, want)
			require.ErrorContains(t, err, state)
			require.Zero(t, countEffects(t, db))
			requireIdle(t, db)
			requireUnprocessed(t, db, box, m)
			require.NoError(t, db.Exec("DELETE FROM effects").Error)
		})
	}

	t.Run("sqlite", func(t *testing.T) {
		db, within := interruptible(t)
		box, m := newInbox(t, db, stockInbox), message()
		err := box.Process(t.Context(), m, func(tx *gorm.DB) error {
			require.Error(t, tx.WithContext(within(tx.Statement.Context)).Exec(endless).Error)
			require.Error(t, stock(tx), "the transaction is no more; this row would be there without the marker")
			return nil
		})
		require.ErrorIs(t, err, core.ErrAborted)
		require.Zero(t, countEffects(t, db))
		requireUnprocessed(t, db, box, m)
	})
}

// CONTRACT Q-1
func TestInboxConsumerIsKilled(t *testing.T) {
	db := parallelPostgres(t)
	box, m := newInbox(t, db, stockInbox), message()
	err := box.Process(t.Context(), m, func(tx *gorm.DB) error {
		require.NoError(t, stock(tx))
		pid := query[int](t, tx, "SELECT pg_backend_pid()")
		return db.Exec("SELECT pg_terminate_backend(?)", pid).Error
	})
	require.ErrorIs(t, err, core.ErrRetryable)
	require.Zero(t, countEffects(t, db))
	eventually(t, "the message is processed", func() bool { return box.Process(t.Context(), m, stock) == nil })
	requireProcessed(t, box, m)
	require.Equal(t, 1, countEffects(t, db))
}

// Whatever of a connection breaks, a message that is delivered until it is acknowledged is processed once.
//
// CONTRACT
func TestInboxIsCutAtAnyByte(t *testing.T) {
	t.Parallel()
	cut := newCuttable(t, overPgx)
	through := openPostgres(t, cut.url, 4)
	box := newInbox(t, through, stockInbox)
	processed := 0
	cut.atAnyByte(t, func(at string, mend func()) {
		m := message()
		ctx := within(t, 30*time.Second)
		err := box.Process(ctx, m, stock)
		mend()
		for err != nil {
			require.NoError(t, ctx.Err(), at)
			err = box.Process(ctx, m, stock)
		}
		processed++
		require.Equal(t, processed, countEffects(t, cut.db), at)
	})
}

// COMMIT is not cancelled with its context, and its end is not guessed.
//
// CONTRACT
func TestInboxCommit(t *testing.T) {
	t.Parallel()
	t.Run("the consumer stops", func(t *testing.T) {
		t.Parallel()
		cut := newCuttable(t, overPgx)
		box, m := newInbox(t, openPostgres(t, cut.url, 4), stockInbox), message()
		ctx, cancel := context.WithCancel(t.Context())
		var cancels atomic.Int32
		cut.set(func(toServer bool, chunk []byte) (int, bool) {
			if toServer && isCommitted(chunk) {
				cancel()
			}
			if _, drop := dropCancels(toServer, chunk); drop {
				cancels.Add(1)
			}
			return len(chunk), false
		})
		require.NoError(t, box.Process(ctx, m, stock))
		require.Zero(t, cancels.Load())
		require.Equal(t, 1, countEffects(t, cut.db))
	})

	t.Run("its answer is lost", func(t *testing.T) {
		t.Parallel()
		cut := newCuttable(t, overPgx)
		box, m := newInbox(t, openPostgres(t, cut.url, 4), stockInbox), message()
		answer, _ := once(func(toServer bool, chunk []byte) bool { return !toServer && isCommitted(chunk) })
		cut.set(answer)
		require.NoError(t, box.Process(t.Context(), m, stock), "it is read back")
		requireProcessed(t, box, m)
		require.Equal(t, 1, countEffects(t, cut.db))
	})

	t.Run("another payload has committed meanwhile", func(t *testing.T) {
		t.Parallel()
		cut := newCuttable(t, overPgx)
		box, m := newInbox(t, openPostgres(t, cut.url, 4), stockInbox), message()
		direct, done := newInbox(t, cut.db, stockInbox), make(chan error, 1)
		var lost atomic.Bool
		cut.set(func(toServer bool, chunk []byte) (int, bool) {
			switch {
			case toServer && isCommitted(chunk) && lost.CompareAndSwap(false, true):
				go func() {
					err := inbox.ErrBusy // until the server notices that the connection is gone
					for errors.Is(err, inbox.ErrBusy) {
						err = direct.Process(t.Context(), reused(m), stock)
					}
					done <- err
					close(done)
				}()
				return 0, true // COMMIT never arrives
			case lost.Load():
				if err := <-done; err != nil { // before anything is read back
					t.Error(err)
				}
			}
			return len(chunk), false
		})
		require.ErrorIs(t, box.Process(t.Context(), m, stock), core.ErrRetryable, "that marker is not this message's")
		require.ErrorIs(t, box.Process(t.Context(), m, never(t)), inbox.ErrReused)
		require.Equal(t, 1, countEffects(t, cut.db))
	})

	t.Run("a constraint refuses it", func(t *testing.T) {
		sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
			require.NoError(t, db.Exec("CREATE TABLE late (id integer PRIMARY KEY, "+
				"other integer REFERENCES late (id) DEFERRABLE INITIALLY DEFERRED)").Error)
			box, m := newInbox(t, db, stockInbox), message()
			err := box.Process(t.Context(), m, func(tx *gorm.DB) error {
				return tx.Exec("INSERT INTO late VALUES (1, 2)").Error
			})
			require.ErrorIs(t, err, core.ErrAborted)
			requireUnprocessed(t, db, box, m)
		})
	})
}

// A marker that can be seen is not on the standby yet, because its COMMIT was interrupted while it waited. A
// message that is acknowledged now would be lost with the primary.
//
// CONTRACT Q-1, F-2
func TestInboxWaitsForStandby(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	box, m := newInbox(t, openPostgres(t, r.URL()+"&synchronous_commit=on", 4), stockInbox), message()
	first := later(func() error { return box.Process(t.Context(), m, stock) })
	require.NoError(t, r.admin.Exec("SELECT pg_terminate_backend(?)", r.waiting()).Error)
	eventually(t, "the row can be seen", func() bool { return countEffects(t, r.admin) == 1 })
	requireTimeout(t, func(ctx context.Context) error { return box.Process(ctx, m, never(t)) }, "message")
	r.abandon()
	require.NoError(t, <-first, "it is read back")
	requireProcessed(t, box, m)
	require.Equal(t, 1, countEffects(t, r.admin))
}

// CONTRACT Q-1
func TestInboxContext(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		t.Run("ends", func(t *testing.T) {
			box, m := newInbox(t, db, stockInbox), message()
			ctx, cancel := context.WithCancelCause(t.Context())
			errStop := errors.New("the consumer stops")
			require.ErrorIs(t, box.Process(ctx, m, func(tx *gorm.DB) error {
				require.NoError(t, stock(tx))
				cancel(errStop)
				return nil // it did not look
			}), errStop)
			requireUnprocessed(t, db, box, m)
			require.ErrorIs(t, box.Process(ctx, message(), never(t)), context.Canceled)
			requireIdle(t, db)
		})

		t.Run("the deadline", func(t *testing.T) {
			cfg := stockInbox
			cfg.Deadline = time.Second
			box, m := newInbox(t, db, cfg), message()
			begun := time.Now()
			err := box.Process(t.Context(), m, func(tx *gorm.DB) error {
				require.NoError(t, stock(tx))
				<-tx.Statement.Context.Done()
				return nil
			})
			require.Less(t, time.Since(begun), 10*time.Second)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "inbox.Config.Deadline")
			requireUnprocessed(t, db, box, m)
		})

		t.Run("carries the transaction", func(t *testing.T) {
			box, m := newInbox(t, db, stockInbox), message()
			before := countEffects(t, db)
			var late context.Context
			require.NoError(t, box.Process(t.Context(), m, func(tx *gorm.DB) error {
				late = tx.Statement.Context
				require.ErrorIs(t, db.WithContext(late).Create(&effect{}).Error, gormstore.ErrOutsideTransaction)
				return addEffect(late)
			}))
			require.Equal(t, before+1, countEffects(t, db))
			require.Error(t, addEffect(late), "it is over")
			require.Equal(t, before+1, countEffects(t, db))
		})
	})
}

// CONTRACT Q-1
func TestInboxInvalidMessages(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		box := newInbox(t, db, stockInbox)
		for says, change := range map[string]func(m *inbox.Message){
			"ID is empty":                     func(m *inbox.Message) { m.ID = "" },
			"Source is empty":                 func(m *inbox.Message) { m.Source = "" },
			"ID has 256 bytes of at most 255": func(m *inbox.Message) { m.ID = strings.Repeat("x", 256) },
			"Source has 256 bytes":            func(m *inbox.Message) { m.Source = strings.Repeat("x", 256) },
			"ID is not valid UTF-8":           func(m *inbox.Message) { m.ID = "a\x00b" },
			"Source is not valid UTF-8":       func(m *inbox.Message) { m.Source = "a\xffb" },
			"Published is in the year 10000":  func(m *inbox.Message) { m.Published = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
			"Published is in the year -1":     func(m *inbox.Message) { m.Published = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) },
		} {
			m := message()
			change(&m)
			err := box.Process(t.Context(), m, never(t))
			require.ErrorIs(t, err, inbox.ErrInvalid)
			require.ErrorContains(t, err, says)
		}
		longest := message()
		longest.ID, longest.Source = strings.Repeat("ä", 127)+"x", strings.Repeat("x", 255)
		longest.Payload = nil
		require.NoError(t, box.Process(t.Context(), longest, stock))
		requireProcessed(t, box, longest)
	})
}

// age moves the markers into the past.
func age(t *testing.T, db *gorm.DB, by time.Duration) {
	t.Helper()
	moveBack(t, db, by, "processed_message", "processed_at", "expires_at")
}

// A message that is older than its marker would be may have been processed or not: it is not processed in silence.
//
// CONTRACT Q-1
func TestInboxConsumerLagsBehind(t *testing.T) {
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		store := newStore(t, db)
		box := newInbox(t, db, stockInbox)
		const keep, hour = inbox.DefaultKeep, time.Hour

		m := message()
		m.Published = time.Now().Add(-keep - time.Second)
		require.ErrorIs(t, box.Process(t.Context(), m, never(t)), inbox.ErrTooOld)
		requireIdle(t, db)
		m.Published = time.Now().Add(-keep + hour)
		require.NoError(t, box.Process(t.Context(), m, stock), "in time")

		m.Published = m.Published.Add(-2 * hour)
		requireProcessed(t, box, m) // too old, but the marker is there: a duplicate

		age(t, db, keep-time.Minute)
		require.Zero(t, sweepMessages(t, store), "a marker lives from the processing on")
		requireProcessed(t, box, m)
		age(t, db, 2*time.Minute)
		requireProcessed(t, box, m) // as long as there is a marker, it counts
		require.Equal(t, 1, sweepMessages(t, store))
		require.ErrorIs(t, box.Process(t.Context(), m, never(t)), inbox.ErrTooOld)

		early := message()
		early.Published = time.Now().Add(48 * hour)
		require.NoError(t, box.Process(t.Context(), early, stock))
		age(t, db, keep+47*hour)
		require.Zero(t, sweepMessages(t, store), "a publisher whose clock is ahead does not outlive its marker")
		age(t, db, 2*hour)
		require.Equal(t, 1, sweepMessages(t, store))
	})
}

// What was too old stays too old, whatever a later release keeps: a marker that was swept may have been of this message,
// and one that was refused may have been processed by hand.
//
// CONTRACT Q-3
func TestInboxNeverForgetsWhatIsTooOld(t *testing.T) {
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		store := newStore(t, db)
		raised := stockInbox
		raised.Keep = 365 * 24 * time.Hour
		short, long := newInbox(t, db, stockInbox), newInbox(t, db, raised)
		const keep, hour = inbox.DefaultKeep, time.Hour
		aged := func(by time.Duration) inbox.Message {
			m := message()
			m.Published = time.Now().Add(-by)
			return m
		}

		refused := aged(keep + hour)
		require.ErrorIs(t, short.Process(t.Context(), refused, never(t)), inbox.ErrTooOld)
		require.ErrorIs(t, long.Process(t.Context(), refused, never(t)), inbox.ErrTooOld)
		require.ErrorIs(t, long.Process(t.Context(), aged(keep+2*hour), never(t)), inbox.ErrTooOld)
		require.ErrorIs(t, long.Process(t.Context(), refused, never(t)), inbox.ErrTooOld, "the floor only rises")

		processed, other := aged(keep-hour), aged(keep-2*hour)
		other.Source = "refunds"
		require.NoError(t, short.Process(t.Context(), processed, stock))
		require.NoError(t, short.Process(t.Context(), other, stock))
		require.NoError(t, short.Process(t.Context(), message(), stock), "it does not say when it was published")
		for _, by := range []time.Duration{hour / 4, hour / 2} { // the latest one of a batch counts
			require.NoError(t, short.Process(t.Context(), aged(keep-by), stock))
		}
		age(t, db, keep)
		require.Equal(t, 5, sweepMessages(t, store))
		for _, m := range []inbox.Message{processed, other} {
			require.ErrorIs(t, long.Process(t.Context(), m, never(t)), inbox.ErrTooOld)
		}

		require.NoError(t, long.Process(t.Context(), aged(keep-90*time.Minute), stock), "younger than all of them")
		mail := raised
		mail.Group = "mail"
		require.NoError(t, newInbox(t, db, mail).Process(t.Context(), processed, stock), "another group's are its own")
	})
}

// sweepMessages returns how many markers a sweep removes.
func sweepMessages(t *testing.T, st *gormstore.Store) int {
	t.Helper()
	swept := sweep(t, st, 100)
	require.Equal(t, store.Swept{Messages: swept.Messages}, swept)
	return swept.Messages
}

// CONTRACT Q-1, T-3
func TestInboxSweep(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		box := newInbox(t, db, stockInbox)
		for range 5 {
			require.NoError(t, box.Process(t.Context(), message(), stock))
		}
		age(t, db, inbox.DefaultKeep+time.Second)
		young := message()
		require.NoError(t, box.Process(t.Context(), young, stock))
		for _, want := range []int{2, 2, 1, 0} { // in batches
			require.Equal(t, store.Swept{Messages: want}, sweep(t, st, 2))
		}
		requireProcessed(t, box, young)
	})
}

// The floor is that of the latest message of a batch, wherever it stands among them.
//
// CONTRACT
func TestInboxSweepRaisesTheFloorToTheLatest(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		box := newInbox(t, db, stockInbox)
		at := time.Now().Truncate(time.Second)
		for _, ago := range []time.Duration{3, 1, 2} {
			m := message()
			m.Published = at.Add(-ago * time.Minute)
			require.NoError(t, box.Process(t.Context(), m, stock))
		}
		age(t, db, inbox.DefaultKeep+time.Second)
		require.Equal(t, 3, sweepMessages(t, st))
		m := message()
		m.Published = at.Add(-time.Minute)
		require.ErrorIs(t, box.Process(t.Context(), m, stock), inbox.ErrTooOld)
	})
}

// CONTRACT Q-1
func TestInboxConfig(t *testing.T) {
	t.Parallel()
	db := openPostgres(t, pgtest.URL(t), 2)
	_, err := inbox.New(db, inbox.Config{Keep: -1, Deadline: time.Millisecond})
	require.ErrorContains(t, err, "idem: inbox.New: ")
	require.ErrorContains(t, err, "Group is empty")
	require.ErrorContains(t, err, "BrokerRetention is missing")
	require.ErrorContains(t, err, "Keep is -1ns")
	require.ErrorContains(t, err, "Deadline is 1ms")

	week := 7 * 24 * time.Hour
	for _, c := range []struct {
		retention, keep time.Duration
		says            string
	}{
		{week, 0, ""},
		{week, week, ""},
		{week, week - 1, "a marker must live as long as the broker keeps a message, 168h0m0s"},
		{365 * 24 * time.Hour, 0, ""},
		{-1, 0, "BrokerRetention"},
	} {
		_, err := inbox.New(db, inbox.Config{Group: "g", BrokerRetention: c.retention, Keep: c.keep})
		if c.says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.says)
		}
	}

	_, err = inbox.New(openPostgres(t, pgtest.URL(t), 1), stockInbox)
	require.ErrorContains(t, err, "idem: inbox.New: SetMaxOpenConns(1)")
}

// A year's retention makes a year's markers.
//
// CONTRACT Q-1
func TestInboxKeepsAsLongAsTheBroker(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, store *gormstore.Store) {
		cfg := stockInbox
		cfg.BrokerRetention = 365 * 24 * time.Hour
		require.NoError(t, newInbox(t, db, cfg).Process(t.Context(), message(), stock))
		age(t, db, cfg.BrokerRetention-time.Minute)
		require.Zero(t, sweepMessages(t, store))
		age(t, db, time.Minute)
		require.Equal(t, 1, sweepMessages(t, store))
	})
}

// CONTRACT Q-1
func TestInboxWithoutTable(t *testing.T) {
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		store := newStore(t, db)
		box := newInbox(t, db, stockInbox)
		require.NoError(t, db.Exec("DROP TABLE processed_message").Error)
		require.ErrorContains(t, box.Process(t.Context(), message(), never(t)),
			"table processed_message is missing: run gormstore.Migrate")
		require.ErrorContains(t, store.Validate(t.Context()), "table processed_message is missing")
		requireIdle(t, db)
	})
}

// No setting of GORM changes what the inbox does.
//
// CONTRACT Q-1, K-6
func TestInboxModesOfGORM(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		db = reopen(t, db, &gorm.Config{
			PrepareStmt: true, TranslateError: true, SkipDefaultTransaction: true, Logger: logger.Discard,
			NamingStrategy: schema.NamingStrategy{TablePrefix: "app_", SingularTable: true},
		})
		require.NoError(t, db.AutoMigrate(&effect{}))
		box, m := newInbox(t, db, stockInbox), message()
		require.NoError(t, box.Process(t.Context(), m, stock))
		requireProcessed(t, box, m)
		require.Equal(t, 1, countEffects(t, db))
	})
}

// An inbox and the store of its db share SQLite's one writer in the order of asking: they do not wait for the file's lock,
// which goes to the one that asks most often. Nor do messages take the last connections of a pool whose slots are taken: one
// stays free for repeats.
func TestInboxSharesWithTheStore(t *testing.T) {
	t.Parallel()
	for says, fresh := range map[string]func(t *testing.T) *gorm.DB{
		"SQLite has one writer, and it is busy":  func(t *testing.T) *gorm.DB { return freshSQLite(t)(t) },
		"all connections for attempts are taken": func(t *testing.T) *gorm.DB { return newPostgres(t, 2) },
	} {
		t.Run(says, func(t *testing.T) {
			db := fresh(t)
			store := newStore(t, db)
			box, m := newInbox(t, db, stockInbox), message()
			require.NoError(t, box.Process(t.Context(), message(), stock)) // what is checked once takes none of the time below
			tx, _ := begin(t, store, command(core.Rollback))
			require.ErrorContains(t, box.Process(soon(t), m, never(t)), says)
			require.NoError(t, tx.Rollback())
			requireUnprocessed(t, db, box, m) // not in hand of the delivery that gave up
		})
	}
}

// CONTRACT Q-1, T-3
func TestInboxIsCleanedUpByRun(t *testing.T) {
	t.Parallel()
	db := freshSQLite(t)(t)
	st, box, events := newStore(t, db), newInbox(t, db, stockInbox), &told{}
	for range 5 {
		require.NoError(t, box.Process(t.Context(), message(), stock))
	}
	age(t, db, inbox.DefaultKeep+time.Second)
	module := try(core.New(core.Config{
		Store: st, Policy: core.Policy{Recovery: core.Rollback}, SweepBatch: 2, Observer: events,
	})).ok(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := later(func() error { return module.Run(ctx) })
	eventually(t, "the last batch is removed", func() bool { return events.last(core.EventSwept).Count == 1 })
	stop()
	require.NoError(t, <-ended)
	require.Zero(t, query[int](t, db, "SELECT count(*) FROM processed_message"))
}

// A handler has ended the inbox's transaction, which is noticed at its end. Meanwhile another delivery has processed the
// message, whose marker stays: what that one has written is known.
//
// CONTRACT
func TestLostDeliveryLeavesALaterMarker(t *testing.T) {
	t.Parallel()
	db := wrapped.fresh("", false)(t)(t) // a driver that does not show that the transaction has ended
	box, m := newInbox(t, db, stockInbox), message()
	err := box.Process(t.Context(), m, func(tx *gorm.DB) error {
		require.NoError(t, smuggle(tx, "ROLLBACK"))
		return box.Process(t.Context(), m, stock)
	})
	require.ErrorIs(t, err, inbox.ErrUnknown)
	requireProcessed(t, box, m)
	require.Equal(t, 1, countEffects(t, db))
}
