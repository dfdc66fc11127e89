package openapi_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newModule returns a module on a SQLite file, with a route of each kind.
func newModule(t *testing.T) *core.Module {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.db")
	db, err := gorm.Open(sqlite.Open("file:"+file+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	store, err := gormstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	idem, err := core.New(core.Config{Store: store, PolicyURL: "/idempotency", Routes: core.Routes{
		"POST /v1/payments":             {Recovery: core.Rollback, Roles: []string{"customer"}},
		"POST /v1/payments/:id/refunds": {Recovery: core.Resume},
		"PUT /v1/payouts/:payout":       {Recovery: core.Park, KeyFormat: core.TimedKey},
		"PATCH /v1/payouts/:id":         {Recovery: core.Park, ShadowUntil: time.Now().Add(time.Hour)},
		"DELETE /v1/files/*path":        {Recovery: core.Park, KeyFormat: core.UUIDKey},
	}})
	require.NoError(t, err)
	return idem
}

// toJSON is a document as an app would send it.
func toJSON(t *testing.T, document any) []byte {
	t.Helper()
	text, err := json.Marshal(document)
	require.NoError(t, err)
	return text
}

// valid requires that a document is valid OpenAPI, and returns it.
func valid(t *testing.T, document any) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(toJSON(t, document))
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	return doc
}
