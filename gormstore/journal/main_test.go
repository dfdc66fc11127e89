package journal_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/internal/exampledb"
)

// The rules of the journal are tested by the package gormstore, in journal*_test.go: those tests need its databases.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// database is that of the examples, for a test.
func database(t *testing.T) *gorm.DB {
	t.Helper()
	db, done := exampledb.Open()
	t.Cleanup(done)
	return db
}

// parking is the bank's module.
func parking(t *testing.T) *core.Module {
	t.Helper()
	idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	require.NoError(t, err)
	return idem
}

// guarded is a server with one guarded route.
func guarded(idem *core.Module, handler http.HandlerFunc) http.Handler {
	caller := core.Principal{Issuer: "https://issuer.example", Subject: "caller-1"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, reply := idem.Admit(r, r.URL.Path, caller)
		if reply == nil {
			var attempt *core.Attempt
			if attempt, reply = idem.Begin(r, r.URL.Path, caller); attempt != nil {
				handler(attempt.Capture(w), attempt.Request())
				reply = attempt.Finish()
			}
		}
		_ = reply.WriteTo(w)
	})
}
