package suite

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/gormstore/journal"
	"github.com/auth19/idem/internal/mariatest"
)

// migrated is a database with the library's tables, and one of the app's.
func migrated(t *testing.T) (db *gorm.DB, address string) {
	t.Helper()
	address = mariatest.Address(t)
	db = open(t, address)
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, db.Exec("CREATE TABLE effects (name varchar(255) NOT NULL) ENGINE=InnoDB").Error)
	return db, address
}

func stock(tx *gorm.DB) error { return tx.Exec("INSERT INTO effects (name) VALUES ('stock')").Error }

func never(t *testing.T) func(*gorm.DB) error {
	return func(*gorm.DB) error {
		t.Error("the handler runs")
		return nil
	}
}

func effects(t *testing.T, db *gorm.DB) (n int64) {
	t.Helper()
	require.NoError(t, db.Table("effects").Count(&n).Error)
	return n
}

var stockInbox = inbox.Config{Group: "stock", BrokerRetention: 7 * 24 * time.Hour, Keep: 30 * 24 * time.Hour}

func newInbox(t *testing.T, db *gorm.DB) *inbox.Inbox {
	t.Helper()
	box, err := inbox.New(db, stockInbox)
	require.NoError(t, err)
	require.NoError(t, box.Validate(t.Context()))
	return box
}

func message(id string) inbox.Message {
	return inbox.Message{Source: "payments", ID: id, Payload: []byte(`{"amount":"10.00"}`)}
}

// A message is processed once, and ids that a collation takes for one are two.
//
// CONTRACT Q-1
func TestInbox(t *testing.T) {
	db, _ := migrated(t)
	box := newInbox(t, db)
	ids := []string{"a", "a ", "A", "é", "e", "a\x00"}
	for _, id := range ids[:5] {
		require.NoError(t, box.Process(t.Context(), message(id), stock))
	}
	require.Equal(t, int64(5), effects(t, db))
	for _, id := range ids[:5] {
		require.NoError(t, box.Process(t.Context(), message(id), never(t)))
	}
	other := message("a")
	other.Payload = []byte(`{"amount":"99.00"}`)
	require.ErrorIs(t, box.Process(t.Context(), other, never(t)), inbox.ErrReused)

	errHandler := errors.New("no stock")
	failed := message("failed")
	require.ErrorIs(t, box.Process(t.Context(), failed, func(tx *gorm.DB) error { return errors.Join(stock(tx), errHandler) }), errHandler)
	require.Equal(t, int64(5), effects(t, db))
	require.NoError(t, box.Process(t.Context(), failed, stock))
}

// A second delivery does not wait for the first one. Messages beside it go on.
//
// CONTRACT Q-1
func TestInboxSimultaneously(t *testing.T) {
	db, address := migrated(t)
	box, another := newInbox(t, db), newInbox(t, open(t, address))
	require.NoError(t, box.Process(t.Context(), message("m"), func(tx *gorm.DB) error {
		require.ErrorIs(t, another.Process(t.Context(), message("m"), never(t)), inbox.ErrBusy)
		require.NoError(t, another.Process(t.Context(), message("n"), stock))
		return stock(tx)
	}))
	require.NoError(t, another.Process(t.Context(), message("m"), never(t)))

	var ran atomic.Int32
	var all sync.WaitGroup
	for n := range 160 {
		all.Go(func() {
			for {
				err := []*inbox.Inbox{box, another}[n%2].Process(t.Context(), message("storm"+string(rune('a'+n/8))), func(tx *gorm.DB) error {
					ran.Add(1)
					return stock(tx)
				})
				if errors.Is(err, inbox.ErrBusy) || errors.Is(err, store.ErrRetryable) {
					continue
				}
				if err != nil {
					t.Error(err)
				}
				return
			}
		})
	}
	all.Wait()
	require.Equal(t, int64(22), effects(t, db))
	require.Equal(t, int32(20), ran.Load())
}

// What is too old stays too old: its marker may be gone. A transaction that has begun before the sweep sees its floor.
//
// CONTRACT
func TestInboxTooOld(t *testing.T) {
	db, _ := migrated(t)
	box := newInbox(t, db)
	late := message("late")
	late.Published = time.Now().Add(-31 * 24 * time.Hour)
	require.ErrorIs(t, box.Process(t.Context(), late, never(t)), inbox.ErrTooOld)
	below := message("below")
	below.Published = late.Published.Add(-time.Second)
	require.ErrorIs(t, box.Process(t.Context(), below, never(t)), inbox.ErrTooOld)
	require.NoError(t, db.Exec("DELETE FROM processed_message_floor").Error)

	first := message("first")
	first.Published = time.Now()
	require.NoError(t, box.Process(t.Context(), first, stock))
	tx := db.Begin()
	defer tx.Rollback()
	require.NoError(t, tx.Exec("SELECT * FROM effects").Error) // it sees what is there now
	require.NoError(t, db.Exec("UPDATE processed_message SET expires_at = 1").Error)
	_, err := newStore(t, db).Sweep(t.Context(), 10, around())
	require.NoError(t, err)
	ctx := gormstore.WithTx(t.Context(), tx)
	require.ErrorIs(t, box.Process(ctx, first, never(t)), inbox.ErrTooOld)
	require.NoError(t, tx.Rollback().Error)
	require.ErrorIs(t, box.Process(t.Context(), first, never(t)), inbox.ErrTooOld)
}

func around() store.Window {
	return store.Window{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}
}

// An intent keeps its first key and command, and callers learn of each other.
//
// CONTRACT C-1, C-6
func TestJournal(t *testing.T) {
	db, address := migrated(t)
	j, err := journal.New(db)
	require.NoError(t, err)
	require.NoError(t, j.Validate(t.Context()))
	twin, err := journal.New(open(t, address))
	require.NoError(t, err)

	planned := intents.Entry{Intent: "order-7", Key: intents.NewKey()}
	found, err := j.Begin(t.Context(), planned)
	require.NoError(t, err)
	require.Equal(t, planned, found)
	var all sync.WaitGroup
	var mu sync.Mutex
	var keys []string
	first := 0
	for n := range 24 {
		all.Go(func() {
			e := intents.Entry{Intent: "order-8", Command: store.CommandHash{Version: 1, Sum: [32]byte{byte(n)}}}
			found, err := []*journal.Journal{j, twin}[n%2].Begin(t.Context(), e)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if keys = append(keys, found.Key); found.First {
				first++
			}
		})
	}
	all.Wait()
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(keys))), 1)
	require.Equal(t, 1, first)

	require.NoError(t, db.Transaction(func(tx *gorm.DB) error {
		require.NoError(t, j.Plan(tx, "order-9"))
		require.NoError(t, j.Plan(tx, "order-9"))
		return stock(tx)
	}))
	pending, err := j.Pending(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, pending, 3)
	require.Equal(t, []string{"order-7", "order-8", "order-9"}, []string{pending[0].Intent, pending[1].Intent, pending[2].Intent})

	require.NoError(t, j.End(t.Context(), "order-7"))
	require.NoError(t, j.End(t.Context(), "order-7"))
	require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Done(tx, "order-9") }))
	require.ErrorIs(t, db.Transaction(func(tx *gorm.DB) error { return j.Done(tx, "order-9") }), journal.ErrNotPending)
	pending, err = j.Pending(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, pending, 1)
	require.NoError(t, db.Exec("UPDATE idempotency_intent SET ended_at = 1 WHERE ended_at > 0").Error)
	n, err := j.Sweep(t.Context(), 24*time.Hour, 10)
	require.NoError(t, err)
	require.Equal(t, 2, n)
}
