package gormstore_test

import (
	"bytes"
	"errors"
	"log"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// reopen returns another *gorm.DB on the pool of db.
func reopen(t *testing.T, db *gorm.DB, config *gorm.Config) *gorm.DB {
	t.Helper()
	pool := try(db.DB()).ok(t)
	dialector := postgres.New(postgres.Config{Conn: pool})
	if db.Name() == "sqlite" {
		dialector = sqlite.New(sqlite.Config{Conn: pool})
	}
	return try(gorm.Open(dialector, config)).ok(t)
}

// secretive is an answer whose parts must not appear anywhere but in the store's table.
func secretive() store.Completion {
	c := paid()
	c.Answer.Header = http.Header{"Location": {"/secret/location"}}
	c.Answer.Body = []byte(`{"iban":"secret body"}`)
	return c
}

// requireWholeLife takes a store through all of its statements.
func requireWholeLife(t *testing.T, st *gormstore.Store, db *gorm.DB) {
	t.Helper()
	ctx := t.Context()
	c := command(store.Rollback)
	tx, attempt := begin(t, st, c)
	handle, _ := gormstore.SQLTx(attempt)
	require.NoError(t, err2(handle.ExecContext(attempt, "INSERT INTO effects (name) VALUES ('by SQL')")))
	require.NoError(t, seal(ctx, tx, secretive(), false))
	requireCompleted(t, st, c, secretive())
	require.Equal(t, secretive().Answer, repeated(t, st, c).Record.Answer)

	c = command(store.Park)
	ticket := won(t, st, c)
	require.NoError(t, st.Renew(ctx, ticket, lease))
	require.NoError(t, st.End(ctx, ticket, store.Ending{State: store.Completed, Answer: secretive()}))
	requireCompleted(t, st, c, secretive())

	c = command(store.Park)
	require.NoError(t, st.End(ctx, won(t, st, c), store.Ending{State: store.Free}))
	requireFree(t, st, c)

	advance(t, db, 40*24*time.Hour)
	unknown := try(st.List(ctx, store.Query{Unknown: true, Limit: 10})).ok(t)
	require.Len(t, unknown, 1, "the one that requireFree has left behind")
	answer := secretive()
	decision := store.Settlement{ID: c.ID, Fence: unknown[0].Fence, Answer: &answer, Who: "who", Why: "why"}
	require.Equal(t, store.Completed, try(st.Settle(ctx, decision)).ok(t).State())
	for sweep(t, st, 10) != (store.Swept{}) {
	}
}

// The store's statements are its own: no setting of GORM changes them, and no logger of the app's sees them.
//
// CONTRACT K-6
func TestModesOfGORM(t *testing.T) {
	t.Parallel()
	for _, d := range everyWay {
		t.Run(d.name, func(t *testing.T) {
			plain := d.fresh(t)(t)
			var seen lockedBuffer
			db := reopen(t, plain, &gorm.Config{
				PrepareStmt: true, TranslateError: true, QueryFields: true, AllowGlobalUpdate: true,
				NamingStrategy: schema.NamingStrategy{TablePrefix: "app_", SingularTable: true},
				Logger:         logger.New(log.New(&seen, "", 0), logger.Config{SlowThreshold: 1, LogLevel: logger.Info}),
			})
			require.NoError(t, gormstore.Migrate(t.Context(), db))
			require.NoError(t, db.AutoMigrate(&effect{}))
			st := newStore(t, db)
			requireWholeLife(t, st, plain)

			tx, ctx := begin(t, st, command(store.Rollback))
			require.NoError(t, addEffect(ctx), "the app's own statements keep the app's settings")
			require.ErrorIs(t, db.WithContext(ctx).Create(&effect{}).Error, gormstore.ErrOutsideTransaction)
			require.NoError(t, seal(t.Context(), tx, secretive(), false))
			require.Equal(t, 1, countEffects(t, db), "in the table with the prefix")

			require.Contains(t, seen.String(), "app_effect", "the logger works")
			require.NotContains(t, seen.String(), "secret")
			require.NotContains(t, seen.String(), "idempotency_record")
		})
	}
}

// saboteur is a plugin that fails every statement.
type saboteur struct{}

func (saboteur) Name() string { return "saboteur" }

var errSaboteur = errors.New("not while I am here")

func (saboteur) Initialize(db *gorm.DB) error {
	fail := func(db *gorm.DB) { _ = db.AddError(errSaboteur) }
	cb := db.Callback()
	return errors.Join(
		cb.Create().Before("*").Register("saboteur", fail), cb.Query().Before("*").Register("saboteur", fail),
		cb.Update().Before("*").Register("saboteur", fail), cb.Delete().Before("*").Register("saboteur", fail),
		cb.Row().Before("*").Register("saboteur", fail), cb.Raw().Before("*").Register("saboteur", fail))
}

func TestPluginsOfTheApp(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, plain *gorm.DB) {
		db := reopen(t, plain, &gorm.Config{Logger: logger.Discard})
		require.NoError(t, db.Use(saboteur{}))
		require.NoError(t, gormstore.Migrate(t.Context(), db))
		st := newStore(t, db)
		require.NoError(t, st.Validate(t.Context()))
		requireWholeLife(t, st, plain)
		_, ctx := begin(t, st, command(store.Rollback))
		require.ErrorIs(t, addEffect(ctx), errSaboteur, "they are for the app's statements")
	})
}

// A server that takes no writes is one that is not available, and it does not say that a key is free either.
//
// CONTRACT F-1, F-8
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	st := newStore(t, openPostgres(t, url+"&default_transaction_read_only=on", 4))
	for _, r := range []store.Recovery{store.Park, store.Rollback} {
		c := command(r)
		claimed, err := st.Claim(t.Context(), c)
		require.Error(t, err)
		require.Zero(t, claimed)
		tx, claimed, err := st.Begin(t.Context(), c)
		require.Error(t, err)
		require.Nil(t, tx)
		require.Zero(t, claimed)
		_, err = st.Find(t.Context(), c.ID, store.Viewer{All: true})
		require.ErrorContains(t, err, "takes no writes")
		requireNothing(t, newStore(t, openPostgres(t, url, 2)), c)
	}
}

// lockedBuffer is a buffer for any number of goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
