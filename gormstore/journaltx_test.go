package gormstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/journal"
	"github.com/auth19/idem/internal/pgtest"
)

// charges is a provider that counts what it has carried out, by key.
type charges struct {
	*httptest.Server

	mu   sync.Mutex
	keys []string
}

func newCharges(t *testing.T) *charges {
	t.Helper()
	idem := newModule(t, memstore.New(), core.Policy{Recovery: core.Park})
	c := &charges{}
	c.Server = httptest.NewServer(guarded(idem, func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.keys = append(c.keys, r.Header.Get("Idempotency-Key"))
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *charges) made() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keys
}

// charge sends the one command that these tests send.
func (c *charges) charge(ctx context.Context, client *idemclient.Client, intent string) error {
	r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, c.URL+"/v1/charges", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	_, err = client.Do(ctx, intent, r) //nolint:bodyclose // in memory
	return err
}

// journalClient is one with its own connections.
func journalClient(t *testing.T, cfg idemclient.Config) *idemclient.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	if cfg.Transport == nil {
		cfg.Transport = transport
	}
	client := try(idemclient.New(cfg)).ok(t)
	return client
}

// sendPending does what a restarted caller does.
func (c *charges) sendPending(t *testing.T, j *journal.Journal, client *idemclient.Client) (sent int) {
	t.Helper()
	pending := try(j.Pending(t.Context(), "", 10)).ok(t)
	for _, entry := range pending {
		require.NoError(t, c.charge(t.Context(), client, entry.Intent))
	}
	return len(pending)
}

// serveOnce runs a handler behind the guards of a store, once.
func serveOnce(t *testing.T, store core.Store, recovery core.Recovery, handler http.HandlerFunc) int {
	t.Helper()
	idem := newModule(t, store, core.Policy{Recovery: recovery})
	return serve(t, idem, intents.NewKey(), handler).Code
}

// A handler plans an intent in a transaction of its own and sends it: under the key that the loop over Pending has.
//
// CONTRACT C-5
func TestAPlannedIntentIsSentUnderItsKeyInAHandlerToo(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		for name, of := range map[string]func(context.Context) context.Context{
			"the handler's context": func(ctx context.Context) context.Context { return ctx },
			"a background context":  context.WithoutCancel,
		} {
			t.Run(name, func(t *testing.T) {
				store, j, provider := newStore(t, db), newJournal(t, db), newCharges(t)
				defer func() { require.NoError(t, store.Close()) }()
				client := journalClient(t, idemclient.Config{Journal: j, MaxAttempts: 1})
				intent := "order-7/" + name
				var planned string
				require.Equal(t, http.StatusCreated, serveOnce(t, store, core.Park, func(w http.ResponseWriter, r *http.Request) {
					ctx := of(r.Context())
					require.NoError(t, db.WithContext(gormstore.Outside(ctx)).Transaction(func(tx *gorm.DB) error {
						require.NoError(t, j.Plan(tx, intent))
						return j.Plan(tx, intent+"/not sent")
					}))
					planned = try(client.Key(ctx, intent)).ok(t)
					require.NoError(t, provider.charge(ctx, client, intent))
					w.WriteHeader(http.StatusCreated)
				}))
				require.Equal(t, []string{planned}, provider.made())
				require.Equal(t, 1, provider.sendPending(t, j, client), "what was sent has ended")
				require.Len(t, provider.made(), 2)
				require.NoError(t, provider.charge(t.Context(), client, intent))
				require.Len(t, provider.made(), 2, "one charge for each intent")
			})
		}
	})
}

// What a handler plans in its own transaction is not sent before that has committed, and is sent under its planned key
// once it has, also with a context that was made of the handler's.
//
// CONTRACT C-5
func TestWhatIsPlannedInAnAttemptIsSentAfterItsCommit(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		store, j, provider := newStore(t, db), newJournal(t, db), newCharges(t)
		client := journalClient(t, idemclient.Config{Journal: j, MaxAttempts: 1})
		for _, status := range []int{http.StatusCreated, http.StatusInternalServerError} {
			intent := fmt.Sprint("order-", status)
			var kept context.Context
			require.Equal(t, status, serveOnce(t, store, core.Rollback, func(w http.ResponseWriter, r *http.Request) {
				kept = context.WithoutCancel(r.Context())
				require.NoError(t, j.Plan(gormstore.Tx(r.Context()), intent))
				for _, ctx := range []context.Context{r.Context(), kept} {
					require.ErrorIs(t, provider.charge(ctx, client, intent), idemclient.ErrNotCommitted)
					require.ErrorIs(t, err2(client.Key(ctx, intent)), idemclient.ErrNotCommitted)
				}
				w.WriteHeader(status)
			}))
			require.Empty(t, provider.made())
			if status != http.StatusCreated {
				require.ErrorIs(t, provider.charge(kept, client, intent), idemclient.ErrNotCommitted, "it was rolled back")
				continue
			}
			planned, there, err := j.Find(t.Context(), intent)
			require.NoError(t, err)
			require.True(t, there)
			require.NoError(t, provider.charge(kept, client, intent))
			require.Equal(t, []string{planned.Key}, provider.made())
			provider.keys = nil
		}
		require.Zero(t, provider.sendPending(t, j, client))
		require.Empty(t, provider.made())
	})
}

// An intent that was planned before is sent by a Rollback handler. On SQLite the journal needs the writer that the handler
// holds: the handler gets an error at once, and nothing is sent.
//
// CONTRACT C-5
func TestARollbackHandlerSendsAPlannedIntent(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		store, j, provider := newStore(t, db), newJournal(t, db), newCharges(t)
		client := journalClient(t, idemclient.Config{Journal: j, MaxAttempts: 1})
		require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "order-7") }))
		planned, _, err := j.Find(t.Context(), "order-7")
		require.NoError(t, err)
		var sent error
		require.Equal(t, http.StatusCreated, serveOnce(t, store, core.Rollback, func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, addEffect(r.Context()))
			sent = provider.charge(r.Context(), client, "order-7")
			w.WriteHeader(http.StatusCreated)
		}))
		if db.Name() == "sqlite" {
			require.ErrorContains(t, sent, "do this before or after it")
			require.Empty(t, provider.made())
			require.NoError(t, provider.charge(t.Context(), client, "order-7"))
		}
		require.Equal(t, []string{planned.Key}, provider.made())
	})
}

// The outcome of a call in a Rollback handler is uncertain in every attempt: that there was one before was rolled back.
//
// CONTRACT C-5
func TestARollbackHandlersCallsBeginUncertain(t *testing.T) {
	db := freshSQLite(t)(t)
	store, provider := newStore(t, db), newCharges(t)
	none := httptest.NewServer(nil)
	none.Close()
	away := &charges{Server: none}
	idem := newModule(t, store, core.Policy{Recovery: core.Rollback})
	for attempt, at := range []*charges{provider, away} {
		answer := serve(t, idem, "k-1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			err := at.charge(r.Context(), journalClient(t, idemclient.Config{MaxAttempts: 1}), "charge")
			if e, failed := errors.AsType[*idemclient.Error](err); failed && !e.Uncertain {
				w.WriteHeader(http.StatusUnprocessableEntity) // recorded for good
				return
			}
			w.WriteHeader(http.StatusInternalServerError)
		}))
		require.Equal(t, http.StatusInternalServerError, answer.Code, "attempt %d", attempt+1)
	}
	require.Len(t, provider.made(), 1)
}

// A process ends after Do, and before the row that says so has committed. The next one finds the intent, gets the recorded
// answer, and writes the row.
//
// CONTRACT C-6
func TestTheLoopHeals(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		j, provider := newJournal(t, db), newCharges(t)
		require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "order-7") }))
		client := journalClient(t, idemclient.Config{Journal: j, CallerEnds: true})
		require.Equal(t, 1, provider.sendPending(t, j, client)) // ... and here the process ends

		require.Equal(t, 1, provider.sendPending(t, j, client), "still to be healed")
		lost := errors.New("lost")
		require.ErrorIs(t, db.Transaction(func(tx *gorm.DB) error {
			require.NoError(t, tx.Create(&effect{Name: "paid"}).Error)
			require.NoError(t, j.Done(tx, "order-7"))
			return lost
		}), lost)
		require.Equal(t, 1, provider.sendPending(t, j, client), "neither the row nor the end is there")

		paid := func() error {
			return db.Transaction(func(tx *gorm.DB) error {
				if err := tx.Create(&effect{Name: "paid"}).Error; err != nil {
					return err
				}
				return j.Done(tx, "order-7")
			})
		}
		require.NoError(t, paid())
		require.ErrorIs(t, paid(), journal.ErrNotPending, "another process that came with the same answer")
		require.Equal(t, 1, countEffects(t, db))
		require.Zero(t, provider.sendPending(t, j, client))
		require.Len(t, provider.made(), 1)
		require.ErrorIs(t, db.Transaction(func(tx *gorm.DB) error { return j.Done(tx, "unheard of") }), journal.ErrNotPending)
		require.ErrorContains(t, j.Done(db, "order-7"), "pass the tx of db.Transaction")
	})
	require.ErrorContains(t, err2(idemclient.New(idemclient.Config{CallerEnds: true})), "CallerEnds needs a Journal")
}

// Two loops have the same page. What the first has ended, the second does not send again: the refusal has freed the key, and
// the server would carry it out although the books say that it was refused.
//
// CONTRACT C-6
func TestALoopWithAnOldPage(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		j, idem, runs := newJournal(t, db), newModule(t, memstore.New(), core.Policy{Recovery: core.Park}), 0
		bank := &charges{Server: httptest.NewServer(guarded(idem, func(w http.ResponseWriter, r *http.Request) {
			if runs++; runs == 1 {
				core.NotApplied(r.Context())
				w.WriteHeader(http.StatusUnprocessableEntity)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}))}
		defer bank.Close()
		require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "order-7") }))
		page := try(j.Pending(t.Context(), "", 10)).ok(t)
		require.Len(t, page, 1)

		first := journalClient(t, idemclient.Config{Journal: j, CallerEnds: true})
		require.NoError(t, bank.charge(t.Context(), first, page[0].Intent))
		require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Done(tx, page[0].Intent) }))

		second := journalClient(t, idemclient.Config{Journal: newJournal(t, db), CallerEnds: true})
		err := bank.charge(t.Context(), second, page[0].Intent)
		require.ErrorIs(t, err, idemclient.ErrEnded)
		e, _ := errors.AsType[*idemclient.Error](err)
		require.Zero(t, e.Attempts)
		require.True(t, e.Uncertain)
		require.Equal(t, 1, runs)
	})
}

// Two processes have the answer at once: the rows of one stay.
//
// CONTRACT C-6
func TestOneEndOfMany(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		j := newJournal(t, db)
		require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "order-7") }))
		committed := 0
		for _, err := range atOnce(8, func(int) error {
			return db.Transaction(func(tx *gorm.DB) error {
				if err := j.Done(tx, "order-7"); err != nil {
					return err
				}
				return tx.Create(&effect{Name: "paid"}).Error
			})
		}) {
			if err == nil {
				committed++
			} else {
				require.ErrorIs(t, err, journal.ErrNotPending)
			}
		}
		require.Equal(t, 1, committed)
		require.Equal(t, 1, countEffects(t, db))
	})
}

// CONTRACT C-6
func TestJournalRefusesATransactionOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	kinds := map[string][2]*gorm.DB{} // two of each
	for name, fresh := range map[string]func(t *testing.T) func(t *testing.T) *gorm.DB{
		"postgres": freshPostgres("", false), "simple": freshPostgres("", true), "sqlite": freshSQLite,
	} {
		kinds[name] = [2]*gorm.DB{fresh(t)(t), fresh(t)(t)}
	}
	for name, mine := range kinds {
		db := mine[0]
		j := newJournal(t, db)
		require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "before") }))
		for other, theirs := range kinds {
			t.Run(name+" and "+other, func(t *testing.T) {
				orders := theirs[1]
				for _, run := range []func(*gorm.DB, string) error{j.Plan, j.Done} {
					for _, intent := range []string{"before", "order-7"} {
						require.ErrorIs(t, orders.Transaction(func(tx *gorm.DB) error { return run(tx, intent) }), journal.ErrOtherDatabase)
					}
				}
				require.Empty(t, try(newJournal(t, orders).Pending(t.Context(), "", 10)).ok(t))
				require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "order-7/"+other) }))
			})
		}
	}
}

// A database in memory has no name to be told by.
//
// CONTRACT C-6
func TestJournalInMemory(t *testing.T) {
	open := func() *gorm.DB { return openDB(t, sqlite.Open(":memory:"), 0) }
	db := open()
	pool := try(db.DB()).ok(t)
	pool.SetMaxIdleConns(1)
	migrate(t, db) // on the one connection that there is, and that the transaction gets
	j := newJournal(t, db)
	require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "order-7") }))
	require.ErrorIs(t, open().Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "order-7") }),
		journal.ErrOtherDatabase)
}

// The same database under another session, pool or search path is no other one.
//
// CONTRACT C-6
func TestJournalTakesEverySessionOfItsDatabase(t *testing.T) {
	onDatabases(t, bothKinds, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		j := newJournal(t, db)
		plan := func(intent string) func(*gorm.DB) error {
			return func(tx *gorm.DB) error { return j.Plan(tx, intent) }
		}
		require.NoError(t, db.Session(&gorm.Session{NewDB: true}).Transaction(plan("session")))
		require.NoError(t, open(t).Transaction(plan("opened twice")))
		require.NoError(t, open(t).Session(&gorm.Session{PrepareStmt: true}).Transaction(plan("prepared")))
		require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return tx.Transaction(plan("nested")) }))
		require.Len(t, try(j.Pending(t.Context(), "", 10)).ok(t), 4)
	})
}

// All connections of the pool are in transactions that plan for the first time: none waits for a connection more.
//
// CONTRACT C-6
func TestJournalNeedsNoConnectionMore(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		pool := try(db.DB()).ok(t)
		pool.SetMaxOpenConns(3)
		j := newJournal(t, db)
		tx := db.Begin()
		others := []*gorm.DB{db.Begin(), db.Begin()}
		ctx := within(t, 10*time.Second)
		require.NoError(t, j.Plan(tx.WithContext(ctx), "order-7"))
		require.ErrorIs(t, j.Done(tx.WithContext(ctx), "order-8"), journal.ErrNotPending)
		require.Equal(t, 3, pool.Stats().InUse)
		require.NoError(t, tx.Commit().Error)
		for _, other := range others {
			require.NoError(t, other.Rollback().Error)
		}
	})
}

// A server that was started again is the same database.
//
// CONTRACT C-6
func TestJournalAfterARestartOfItsServer(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Own(t)
	db := openPostgres(t, cluster.URL(), 2)
	migrate(t, db)
	j := newJournal(t, db)
	require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "order-7") }))
	cluster.Stop(pgtest.Fast)
	cluster.Start()
	eventually(t, "the pool has new connections", func() bool { return db.Exec("SELECT 1").Error == nil })
	require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "order-8") }))
	require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Done(tx, "order-7") }))
	require.Len(t, try(j.Pending(t.Context(), "", 10)).ok(t), 1)
}
