package interop_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/contracttest"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

// mattnSettings is what docs/database.md says of GORM's standard driver for SQLite.
const mattnSettings = "?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000"

// openMattn opens an SQLite file with GORM's standard driver. It needs a C compiler.
func openMattn(t *testing.T, settings string) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(sqlite.Open("file:"+filepath.Join(t.TempDir(), "app.db")+settings), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	pool.SetMaxOpenConns(4)
	pool.SetMaxIdleConns(4)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, db.Use(gormstore.WriteGuard()))
	return db
}

// The driver ignores _pragma= without a word. So the audit gives the address in the driver's own form, too, and is content
// with it.
//
// CONTRACT F-2
func TestAuditOfMattn(t *testing.T) {
	wrong := gormstore.Audit(t.Context(), openMattn(t, "?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_busy_timeout=5"))
	for _, want := range []string{
		"journal_mode is delete", "_journal_mode=WAL", "busy_timeout is 5ms", "_busy_timeout=5000", "gorm.io/driver/sqlite",
	} {
		require.ErrorContains(t, wrong, want)
	}
	require.ErrorContains(t, gormstore.Audit(t.Context(), openMattn(t, mattnSettings[:len("?_journal_mode=WAL")]+
		"&_synchronous=NORMAL")), "_synchronous=FULL")
	require.NoError(t, gormstore.Audit(t.Context(), openMattn(t, mattnSettings)))
}

// The contract over HTTP, on GORM's standard driver for SQLite.
func TestContractOnMattn(t *testing.T) {
	t.Parallel()
	db := openMattn(t, mattnSettings)
	require.NoError(t, db.AutoMigrate(&charge{}))
	store, err := gormstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	idem, err := core.New(core.Config{Store: store, Routes: core.Routes{"POST /v1/charges": {Recovery: core.Rollback}}})
	require.NoError(t, err)
	verifier, sign := newIssuer(t)
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	v1 := r.Group("/v1", ginidem.JWTGuard(verifier), ginidem.Idempotent(idem))
	v1.POST("/charges", func(c *gin.Context) {
		row := charge{ID: rand.Text()}
		if err := c.ShouldBindJSON(&struct{ Amount int64 }{}); err != nil {
			c.AbortWithStatus(http.StatusBadRequest)
			return
		}
		if err := gormstore.Tx(c.Request.Context()).Create(&row).Error; err != nil {
			c.AbortWithStatus(http.StatusInternalServerError)
			return
		}
		c.JSON(http.StatusCreated, row)
	})
	require.NoError(t, ginidem.Audit(r, idem))
	contracttest.Run(t, contracttest.App{
		Handler: r,
		Tokens:  contracttest.Tokens{Of: func(n int) string { return sign(jwt.MapClaims{"sub": fmt.Sprint("customer-", n)}) }},
		Routes: []contracttest.Route{{
			Path: "/v1/charges", Recovery: core.Rollback,
			Body: func(n int) (string, []byte) { return "application/json", fmt.Appendf(nil, `{"amount":%d}`, n) },
			Effects: func(ctx context.Context) (int, error) {
				var n int64
				err := db.WithContext(ctx).Model(&charge{}).Count(&n).Error
				return int(n), err
			},
		}},
	})
}

// newIssuer returns a verifier of tokens, and the function that signs them.
func newIssuer(t *testing.T) (*authctx.Verifier, func(claims jwt.MapClaims) string) {
	t.Helper()
	secret := []byte("a secret of thirty-two bytes or so")
	verifier, err := authctx.New(authctx.Config{
		Issuer: "https://issuer.example", Audience: []string{"interop"}, Algorithms: []string{"HS256"},
		Keyfunc: func(*jwt.Token) (any, error) { return secret, nil },
	})
	require.NoError(t, err)
	return verifier, func(claims jwt.MapClaims) string {
		claims["iss"], claims["aud"], claims["exp"] = "https://issuer.example", "interop", time.Now().Add(time.Hour).Unix()
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(secret)
		require.NoError(t, err)
		return token
	}
}
