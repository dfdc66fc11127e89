package gormstore_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/gormstore"
)

// provider notes the keys of the charges that it was asked for.
type provider struct {
	*httptest.Server
	mu   sync.Mutex
	keys []string
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.keys = append(p.keys, r.Header.Get("Idempotency-Key"))
		w.Header().Set("Idempotency-Result", "created")
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) charge(ctx context.Context, client *idemclient.Client) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+"/v1/charges", strings.NewReader(`{"amount":"1.00"}`))
	if err != nil {
		return err
	}
	res, err := client.Do(ctx, "charge", r)
	if err == nil {
		err = res.Body.Close()
	}
	return err
}

// A call in the handler of a message has the message's key: the same in every delivery, another for another message, and
// nothing waits for the writer that the inbox holds.
//
// CONTRACT Q-4, C-3
func TestCallInAnInboxHandler(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		journal := try(gormstore.NewJournal(db)).ok(t)
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		client := try(idemclient.New(idemclient.Config{Journal: journal, Transport: transport})).ok(t)
		p, inbox, first, second := newProvider(t), newInbox(t, db, stockInbox), message(), message()
		later := errors.New("later")
		var keys []string
		for _, delivery := range []struct {
			m    gormstore.Message
			fail error
		}{{first, later}, {first, nil}, {second, nil}, {first, nil}} {
			err := inbox.Process(t.Context(), delivery.m, func(tx *gorm.DB) error {
				ctx, cancel := context.WithTimeout(tx.Statement.Context, 5*time.Second)
				defer cancel()
				require.NoError(t, p.charge(ctx, client))
				id, ok := core.Origin(ctx)
				require.True(t, ok)
				keys = append(keys, id.DeriveCall("charge").UUID())
				return errors.Join(stock(tx), delivery.fail)
			})
			require.ErrorIs(t, err, delivery.fail)
		}
		require.Equal(t, keys, p.keys)
		require.Len(t, keys, 3, "the duplicate was skipped")
		require.Equal(t, keys[0], keys[1])
		require.NotEqual(t, keys[0], keys[2])
		require.Equal(t, 2, countEffects(t, db))
	})
}

// A message that joins an attempt keeps its key, whichever operation brings it.
//
// CONTRACT Q-4
func TestCallInAJoinedInbox(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		client := try(idemclient.New(idemclient.Config{Transport: transport})).ok(t)
		p, hook, inbox, m := newProvider(t), newWebhook(t, newStore(t, db), core.Rollback), newInbox(t, db, stockInbox), message()
		for key, status := range map[string]int{"a": 500, "b": 500} {
			require.Equal(t, status, hook.call(key, func(ctx context.Context) int {
				require.NoError(t, inbox.Process(ctx, m, func(tx *gorm.DB) error {
					return p.charge(tx.Statement.Context, client)
				}))
				return status
			}).Code)
		}
		require.Len(t, p.keys, 2)
		require.Equal(t, p.keys[0], p.keys[1])
	})
}

// On SQLite the handler's transaction has the one writer. A write past it would wait for itself: it is refused at once.
//
// CONTRACT Q-4
func TestJournalInsideATransaction(t *testing.T) {
	t.Parallel()
	db := freshSQLite(t)(t)
	store := newStore(t, db)
	journal := try(gormstore.NewJournal(db)).ok(t)
	writes := func(ctx context.Context) {
		_, err := journal.Begin(ctx, intents.Entry{Intent: "order-7/pay", Key: "k"})
		require.ErrorContains(t, err, "write through that transaction")
		require.ErrorContains(t, journal.End(ctx, "order-7/pay"), "SQLite has one writer")
	}
	require.NoError(t, newInbox(t, db, stockInbox).Process(t.Context(), message(), func(tx *gorm.DB) error {
		writes(tx.Statement.Context)
		return nil
	}))
	tx, ctx := begin(t, store, command(core.Rollback))
	writes(ctx)
	require.NoError(t, tx.Rollback())
	require.NoError(t, journal.End(t.Context(), "order-7/pay"))
}
