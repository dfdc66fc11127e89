package gormstore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jackc/pgx/v5/tracelog"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// pastPgx are the ways in which a handler may write past its attempt, over a pgxpool.
var pastPgx = map[string]func(ctx context.Context, pool *pgxpool.Pool) error{
	"exec": func(ctx context.Context, pool *pgxpool.Pool) error { return err2(pool.Exec(ctx, addRow, "outside")) },
	"query": func(ctx context.Context, pool *pgxpool.Pool) error {
		rows, err := pool.Query(ctx, addRow+" RETURNING id", "outside")
		if err == nil {
			rows.Close()
			err = rows.Err()
		}
		return err
	},
	"query row": func(ctx context.Context, pool *pgxpool.Pool) error {
		return pool.QueryRow(ctx, addRow+" RETURNING id", "outside").Scan(new(int64))
	},
	"a function": func(ctx context.Context, pool *pgxpool.Pool) error {
		return pool.QueryRow(ctx, "SELECT nextval('effects_id_seq')").Scan(new(int64))
	},
	"script": func(ctx context.Context, pool *pgxpool.Pool) error {
		return err2(pool.Exec(ctx, "COMMIT; INSERT INTO effects (name) VALUES ('outside')"))
	},
	"transaction": func(ctx context.Context, pool *pgxpool.Pool) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return err2(tx.Exec(ctx, addRow, "outside")) })
	},
	"copy": func(ctx context.Context, pool *pgxpool.Pool) error {
		return err2(pool.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name"}, pgx.CopyFromRows([][]any{{"outside"}})))
	},
	"batch": func(ctx context.Context, pool *pgxpool.Pool) error {
		var batch pgx.Batch
		batch.Queue("SELECT 1")
		batch.Queue(addRow, "outside")
		return pool.SendBatch(ctx, &batch).Close()
	},
}

// A write past the attempt over a pgxpool is refused before it is sent; reads pass, and so does what is marked. The store is
// over the same pool.
//
// CONTRACT X-6
func TestPgxWriteGuard(t *testing.T) {
	t.Parallel()
	below := newPool(t, pgtest.URL(t), gormstore.PgxWriteGuard())
	db := gormOver(t, below)
	migrate(t, db)
	onPool := newStore(t, db)
	_, rollback := begin(t, onPool, command(core.Rollback))
	var inStep context.Context
	segments, _ := resume(t, onPool, command(core.Resume))
	require.NoError(t, segments.Step(segments.Bind(t.Context(), nil), func(ctx context.Context) error { inStep = ctx; return nil }))
	for attempt, ctx := range map[string]context.Context{"Rollback": rollback, "step of Resume": inStep} {
		for way, write := range pastPgx {
			t.Run(attempt+", "+way, func(t *testing.T) {
				require.NoError(t, below.QueryRow(ctx, "SELECT count(*) FROM effects").Scan(new(int)), "reads are welcome")
				require.NoError(t, pgx.BeginFunc(ctx, below, func(tx pgx.Tx) error { return tx.QueryRow(ctx, "SELECT 1").Scan(new(int)) }))
				err := write(ctx, below)
				require.ErrorIs(t, err, gormstore.ErrOutsideTransaction)
				require.ErrorContains(t, err, "This may write")
				require.Zero(t, countEffects(t, db))
				eventually(t, "the refused one's connection is given back", func() bool { return below.Stat().AcquiredConns() <= 3 })
			})
		}
	}
	require.NoError(t, err2(below.Exec(gormstore.Outside(rollback), addRow, "meant")))
	require.Equal(t, 1, countEffects(t, db))
}

// CONTRACT X-6
func TestPgxWriteGuardKnowsTheLibrary(t *testing.T) {
	t.Parallel()
	db := openPool(t, pgtest.URL(t), gormstore.PgxWriteGuard())
	migrate(t, db)
	for name, write := range pgxWrites { // each adds two rows
		if strings.HasSuffix(name, "nobody reads") { // the connection is busy until the end
			continue
		}
		t.Run(name, func(t *testing.T) {
			requireLibraryPasses(t, db, func(ctx context.Context, tx gormstore.PgxDBTX) { require.NoError(t, write(ctx, tx)) })
		})
	}
}

// Over database/sql the write is not sent either.
//
// CONTRACT X-6
func TestPgxWriteGuardBelowDatabaseSQL(t *testing.T) {
	t.Parallel()
	address := migratedURL(t)
	db := openPostgres(t, address, 16)
	config := try(pgx.ParseConfig(address)).ok(t)
	config.Tracer = gormstore.PgxWriteGuard()
	pool := stdlib.OpenDB(*config)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	_, ctx := begin(t, newStore(t, db), command(core.Rollback))
	require.NoError(t, pool.QueryRowContext(ctx, "SELECT count(*) FROM effects").Scan(new(int)))
	for _, name := range []string{"exec", "query", "query row", "a function", "script", "transaction"} {
		require.Error(t, pastSQL[name](ctx, pool), name)
		require.Zero(t, countEffects(t, db), name)
	}
}

// tracing is an app's own tracer around another one.
type tracing struct{ pgx.QueryTracer }

// joined is one that passes on what a whole guard sees.
type joined struct {
	name  string
	below []*multitracer.Tracer
}

func (j *joined) TraceQueryStart(ctx context.Context, c *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return j.below[0].TraceQueryStart(ctx, c, data)
}

func (j *joined) TraceQueryEnd(ctx context.Context, c *pgx.Conn, data pgx.TraceQueryEndData) {
	j.below[0].TraceQueryEnd(ctx, c, data)
}

func (j *joined) TraceBatchStart(ctx context.Context, c *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	return j.below[0].TraceBatchStart(ctx, c, data)
}

func (j *joined) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (j *joined) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (j *joined) TraceCopyFromStart(ctx context.Context, c *pgx.Conn, data pgx.TraceCopyFromStartData) context.Context {
	return j.below[0].TraceCopyFromStart(ctx, c, data)
}

func (j *joined) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}

// The audit names a pool whose writes nobody looks at. It looks through tracers that have others in them.
//
// CONTRACT D-2
func TestAuditPgx(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	guard, logs := gormstore.PgxWriteGuard(), &tracelog.TraceLog{}
	self := &joined{name: "itself"}
	self.below = []*multitracer.Tracer{{QueryTracers: []pgx.QueryTracer{self}}}
	for name, c := range map[string]struct {
		tracer pgx.QueryTracer
		lacks  string
	}{
		"the guard":                        {guard, ""},
		"with others":                      {multitracer.New(logs, guard), ""},
		"in a tracer in a tracer":          {multitracer.New(logs, multitracer.New(guard)), ""},
		"in one of the app's own":          {&joined{"whole", []*multitracer.Tracer{multitracer.New(guard)}}, ""},
		"none":                             {nil, "has no PgxWriteGuard"},
		"another":                          {logs, "has no PgxWriteGuard"},
		"others":                           {multitracer.New(logs, logs), "has no PgxWriteGuard"},
		"a tracer in itself":               {self, "has no PgxWriteGuard"},
		"an empty one of the app's own":    {tracing{}, "has no PgxWriteGuard"},
		"without batches":                  {tracing{guard}, "does not see batches and CopyFrom"},
		"without batches, in others":       {multitracer.New(logs, tracing{guard}), "does not see batches and CopyFrom"},
		"of multitracer, but query tracer": {&multitracer.Tracer{QueryTracers: []pgx.QueryTracer{guard}}, "does not see batches and CopyFrom"},
	} {
		err := gormstore.AuditPgx(newPool(t, address, c.tracer))
		if c.lacks == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.lacks, name)
		require.ErrorContains(t, err, "config.ConnConfig.Tracer = gormstore.PgxWriteGuard()", name)
	}
	require.ErrorContains(t, gormstore.AuditPgx(nil), "no pool")
}

// An app that writes over pgx, and whose pool has no guard, is told so once: at the first statement over PgxTx.
//
// CONTRACT X-6, D-2
func TestPoolWithoutPgxWriteGuardIsToldOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tracer   pgx.QueryTracer
		warnings int
	}{
		"with":    {multitracer.New(&tracelog.TraceLog{Logger: tracelog.LoggerFunc(nil), LogLevel: tracelog.LogLevelNone}, gormstore.PgxWriteGuard()), 0},
		"without": {nil, 1},
	} {
		db := gormOver(t, newPool(t, pgtest.URL(t), c.tracer))
		migrate(t, db)
		var log bytes.Buffer
		store := newStore(t, db.Session(&gorm.Session{Logger: logger.NewSlogLogger(slog.New(slog.NewTextHandler(&log, nil)),
			logger.Config{LogLevel: logger.Warn})}))
		for range 2 {
			tx, ctx := begin(t, store, command(core.Rollback))
			require.NoError(t, err2(gormstore.Tx(ctx).Statement.ConnPool.ExecContext(ctx, "SELECT 1")))
			require.NoError(t, tx.Rollback())
		}
		require.Empty(t, log.String(), name+": no handler uses pgx")
		for range 2 {
			tx, ctx := begin(t, store, command(core.Rollback))
			pgxTx, ok := gormstore.PgxTx(ctx)
			require.True(t, ok)
			require.NoError(t, err2(pgxTx.Exec(ctx, "SELECT 1")))
			require.NoError(t, tx.Rollback())
		}
		require.Equal(t, c.warnings, strings.Count(log.String(), "level=WARN"), name+": "+log.String())
	}
}

// What the guard of pgx refuses leaves an event, though the handler ignores the error.
//
// CONTRACT X-6
func TestPgxWriteGuardTellsWhatItRefuses(t *testing.T) {
	t.Parallel()
	below := newPool(t, pgtest.URL(t), multitracer.New(&tracelog.TraceLog{LogLevel: tracelog.LogLevelNone}, gormstore.PgxWriteGuard()))
	db := gormOver(t, below)
	migrate(t, db)
	events := &told{}
	module := try(core.New(core.Config{Store: newStore(t, db), Policy: core.Policy{Recovery: core.Rollback}, Observer: events})).ok(t)
	for way, write := range pastPgx {
		before := events.count(core.EventWriteRefused)
		w := serve(t, module, rand.Text(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = write(r.Context(), below)
			w.WriteHeader(http.StatusCreated)
		}))
		require.Equal(t, http.StatusCreated, w.Code, way)
		require.Equal(t, before+1, events.count(core.EventWriteRefused), way)
		require.ErrorIs(t, events.last(core.EventWriteRefused).Err, gormstore.ErrOutsideTransaction, way)
	}
	require.Zero(t, countEffects(t, db))
}
