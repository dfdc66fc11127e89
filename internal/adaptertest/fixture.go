package adaptertest

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/gormstore"
)

// Issuer is the issuer of all tokens.
const Issuer = "https://issuer.example"

var secret = []byte("a secret of thirty-two bytes or so")

// NewVerifier returns a verifier that accepts the tokens of [Sign].
func NewVerifier(t testing.TB) *authctx.Verifier {
	t.Helper()
	v, err := authctx.New(authctx.Config{
		Issuer: Issuer, Audience: []string{"payments"}, Algorithms: []string{"HS256"},
		Keyfunc: func(*jwt.Token) (any, error) { return secret, nil },
	})
	require.NoError(t, err)
	return v
}

// ClaimsOf returns the claims of a principal's token, valid for an hour.
func ClaimsOf(subject string, roles ...string) jwt.MapClaims {
	return jwt.MapClaims{"iss": Issuer, "aud": "payments", "sub": subject, "roles": roles,
		"exp": float64(time.Now().Add(time.Hour).Unix())} // as parsed from JSON
}

// Sign returns the token with these claims.
func Sign(t testing.TB, claims jwt.MapClaims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(secret)
	require.NoError(t, err)
	return token
}

// NewModule returns a module. It has one Park policy for every route and a store in memory, unless cfg says otherwise.
func NewModule(t testing.TB, cfg core.Config) *core.Module {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = memstore.New()
	}
	if cfg.Routes == nil && cfg.Policy.Recovery == 0 {
		cfg.Policy.Recovery = core.Park
	}
	idem, err := core.New(cfg)
	require.NoError(t, err)
	return idem
}

// payment is a row that handlers write.
type payment struct {
	ID     uint64
	Amount int
}

// Database is an SQLite file with the store on it.
type Database struct {
	DB    *gorm.DB
	Store *gormstore.Store
}

// NewSQLite returns a new database. It ends with the test.
func NewSQLite(t testing.TB) Database {
	t.Helper()
	db, err := gorm.Open(sqlite.Open("file:"+filepath.Join(t.TempDir(), "idem.db")+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"),
		&gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	t.Cleanup(func() {
		pool, err := db.DB()
		require.NoError(t, err)
		require.NoError(t, pool.Close())
	})
	require.NoError(t, db.AutoMigrate(&payment{}))
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	store, err := gormstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return Database{db, store}
}

// Config returns the configuration of a module with Rollback for every route.
func (d Database) Config() core.Config {
	return core.Config{Store: d.Store, Policy: core.Policy{Recovery: core.Rollback}}
}

// Payments counts the rows that [Pay] has written.
func (d Database) Payments(t testing.TB) int64 {
	t.Helper()
	var n int64
	require.NoError(t, d.DB.Model(&payment{}).Count(&n).Error)
	return n
}

// Pay writes a row through the attempt's transaction, where there is one.
func Pay(t testing.TB, ctx context.Context) {
	if tx, ok := gormstore.TxFrom(ctx); ok {
		PayWith(t, tx)
	}
}

// PayWith writes a row through tx.
func PayWith(t testing.TB, tx *gorm.DB) { assert.NoError(t, tx.Create(&payment{Amount: 1}).Error) }
