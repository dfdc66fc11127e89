package interop_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core/idemtest"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// oldPayment is a money row of the release before.
type oldPayment struct {
	ID     uint
	Amount string
}

func (oldPayment) TableName() string { return "payments" }

// newPayment is the row of the release that embeds Once.
type newPayment struct {
	gormstore.Once
	ID     uint
	Amount string
}

func (newPayment) TableName() string { return "payments" }

// backfills returns the blocks of SQL in docs/database.md: for PostgreSQL, for later, and for SQLite.
func backfills(t *testing.T) (goose, later, sqlite string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/database.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "### A money table that has rows\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n### ")
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(section, -1)
	require.Len(t, blocks, 3)
	return blocks[0][1], blocks[1][1], blocks[2][1]
}

// byHand runs statements one after the other, each in a transaction of its own.
func byHand(t *testing.T, db *gorm.DB, script string) {
	t.Helper()
	script = regexp.MustCompile(`(?m)^--.*\n`).ReplaceAllString(script, "")
	for statement := range strings.SplitSeq(script, ";") {
		if strings.TrimSpace(statement) != "" {
			require.NoError(t, db.Exec(statement).Error)
		}
	}
}

// withRows makes the table of the release before. What embeds Once does not work with it, and says why.
func withRows(t *testing.T, db *gorm.DB) {
	t.Helper()
	require.NoError(t, db.AutoMigrate(&oldPayment{}))
	for range 3 {
		require.NoError(t, db.Create(&oldPayment{Amount: "1.00"}).Error)
	}
	require.Error(t, db.AutoMigrate(&newPayment{}), "the columns are NOT NULL")
	const missing = "operation_id is missing in the database"
	require.ErrorContains(t, gormstore.Audit(t.Context(), db, &newPayment{}), missing)
	_, err := pay(t, db, "key-0")
	require.ErrorContains(t, err, missing)
	require.ErrorContains(t, err, "docs/database.md")
}

// pay is what a handler of the new release does.
func pay(t *testing.T, db *gorm.DB, key string) (created bool, err error) {
	t.Helper()
	ctx := idemtest.Context(t.Context(), idemtest.Config{Key: key})
	return gormstore.CreateOnce(db.WithContext(ctx), &newPayment{Amount: "2.00"})
}

// requireOnce checks that the new release works, and that the rows of before are all there.
func requireOnce(t *testing.T, db *gorm.DB, before int64) {
	t.Helper()
	require.NoError(t, gormstore.Audit(t.Context(), db, &newPayment{}))
	for _, created := range []bool{true, false} {
		got, err := pay(t, db, "key-1")
		require.NoError(t, err)
		require.Equal(t, created, got)
	}
	var rows int64
	require.NoError(t, db.Model(&newPayment{}).Count(&rows).Error)
	require.Equal(t, before+1, rows)
}

// The statements of docs/database.md bring gormstore.Once to a table that has rows, while the release before inserts more.
//
// CONTRACT D-1
func TestBackfillOnPostgreSQL(t *testing.T) {
	script, later, _ := backfills(t)
	for name, run := range map[string]func(t *testing.T, db *gorm.DB){
		"by hand": func(t *testing.T, db *gorm.DB) {
			up, _, _ := strings.Cut(script, "-- +goose Down")
			byHand(t, db, up)
			byHand(t, db, up)
		},
		"goose": func(t *testing.T, db *gorm.DB) {
			pool, err := db.DB()
			require.NoError(t, err)
			files := fstest.MapFS{"00001_once.sql": {Data: []byte(script)}}
			provider, err := goose.NewProvider(goose.DialectPostgres, pool, files)
			require.NoError(t, err)
			for _, move := range []func(context.Context) error{
				func(ctx context.Context) error { _, err := provider.Up(ctx); return err },
				func(ctx context.Context) error { _, err := provider.Down(ctx); return err },
				func(ctx context.Context) error { _, err := provider.Up(ctx); return err },
			} {
				require.NoError(t, move(t.Context()))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openPostgres(t)
			withRows(t, db)
			run(t, db)
			require.NoError(t, db.Create(&oldPayment{Amount: "3.00"}).Error, "an instance of the release before")
			require.NoError(t, db.Create(&oldPayment{Amount: "3.00"}).Error)
			requireOnce(t, db, 5)
			if name == "by hand" {
				byHand(t, db, later)
			} else { // AutoMigrate does the same
				require.NoError(t, db.AutoMigrate(&newPayment{}))
			}
			require.Error(t, db.Create(&oldPayment{Amount: "4.00"}).Error, "a row without an operation")
			require.NoError(t, db.AutoMigrate(&newPayment{}))
			require.NoError(t, gormstore.Audit(t.Context(), db, &newPayment{}))
		})
	}
}

// CONTRACT D-1
func TestBackfillOnSQLite(t *testing.T) {
	_, _, script := backfills(t)
	db := openMattn(t, mattnSettings)
	withRows(t, db)
	byHand(t, db, script)
	requireOnce(t, db, 3)
	require.NoError(t, db.AutoMigrate(&newPayment{}))
	require.NoError(t, gormstore.Audit(t.Context(), db, &newPayment{}))
	require.Error(t, db.Create(&oldPayment{Amount: "4.00"}).Error, "a row without an operation")
}

// openPostgres opens a database of its own, with the tables of the library.
func openPostgres(t *testing.T) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(postgres.Open(pgtest.URL(t)), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	pool.SetMaxOpenConns(16)
	pool.SetMaxIdleConns(16)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, db.Use(gormstore.WriteGuard()))
	return db
}
