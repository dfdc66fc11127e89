package gormstore_test

import (
	"crypto/rand"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// A 4xx that answers a failed statement is an event with the class of its error, also where the transaction went on: behind
// a savepoint, and on SQLite. The error's text, which quotes values, is not in it.
//
// CONTRACT X-0
func TestStatementFailedIsToldOf(t *testing.T) {
	class := map[string]string{"postgres": "SQLSTATE class 23", "sqlite": "SQLite error 19"}
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		require.NoError(t, db.Create(&effect{ID: 7, Name: "secret"}).Error)
		events := &told{}
		module := try(core.New(core.Config{Store: newStore(t, db), Policy: core.Policy{Recovery: core.Rollback}, Observer: events})).ok(t)
		again := func(tx *gorm.DB) error { return tx.Create(&effect{ID: 7, Name: "secret"}).Error }
		for name, c := range map[string]struct {
			status int
			work   func(tx *gorm.DB) error
			told   bool
		}{
			"refused":              {409, again, true},
			"refused, freed":       {403, again, true},
			"undone by savepoint":  {404, func(tx *gorm.DB) error { return tx.Transaction(again) }, true},
			"answered with a 5xx":  {500, again, false},
			"a success behind it":  {201, func(tx *gorm.DB) error { return tx.Transaction(again) }, false},
			"a row is not there":   {404, func(tx *gorm.DB) error { return tx.First(&effect{ID: 8}).Error }, false},
			"refused for a reason": {402, func(*gorm.DB) error { return errors.New("declined") }, false},
		} {
			t.Run(name, func(t *testing.T) {
				events.mu.Lock()
				events.events = nil
				events.mu.Unlock()
				w := serve(t, module, rand.Text(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					require.Error(t, c.work(gormstore.Tx(r.Context())))
					w.WriteHeader(c.status)
				}))
				require.Equal(t, c.status, w.Code, w.Body)
				e := events.last(core.EventStatementFailed)
				require.Equal(t, c.told, e.Kind != "")
				if c.told {
					require.Equal(t, c.status, e.Status)
					require.ErrorContains(t, e.Err, class[db.Name()])
					require.NotContains(t, e.Err.Error(), "secret")
					require.NotContains(t, e.Err.Error(), "duplicate")
				}
			})
		}
	})
}
