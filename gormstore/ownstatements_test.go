package gormstore_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// The server refuses a statement of the library itself, here for a right that a deployment has just revoked. No command is to
// blame: nothing is applied and the key is free, or the operation waits; and an event names the statement.
//
// CONTRACT, F-1
func TestStatementsOfTheLibraryThatAreRefused(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	admin := openPostgres(t, url, 4)
	role := newRole(t, admin)
	execute(t, admin, "GRANT USAGE ON SCHEMA "+currentSchema(t, admin)+" TO "+role,
		"GRANT ALL ON ALL TABLES IN SCHEMA "+currentSchema(t, admin)+" TO "+role,
		"GRANT ALL ON ALL SEQUENCES IN SCHEMA "+currentSchema(t, admin)+" TO "+role)
	st := newStore(t, openPostgres(t, url+"&role="+role, 8))
	const revoke = "REVOKE INSERT, UPDATE ON idempotency_record FROM "
	const grant = "GRANT INSERT, UPDATE ON idempotency_record TO "
	for name, recovery := range map[string]core.Recovery{
		"in front": core.Park, "Rollback": core.Rollback, "Resume": core.Resume, "Resume, behind a commit": core.Resume,
	} {
		t.Run(name, func(t *testing.T) {
			events := &told{}
			module := try(core.New(core.Config{Store: st, Policy: core.Policy{Recovery: recovery}, Observer: events})).ok(t)
			ran, key := 0, rand.Text()
			send := func(revoked bool) (code, problem, result string) {
				answer := serve(t, module, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					ran++
					if name == "Resume, behind a commit" {
						require.NoError(t, core.CallDo(r.Context(), "call", func(context.Context, core.DerivedKey) error { return nil },
							core.Dedup(time.Hour)))
					}
					if recovery == core.Rollback {
						require.NoError(t, gormstore.Tx(r.Context()).Exec("SELECT 1").Error)
					}
					if revoked && name != "in front" {
						execute(t, admin, revoke+role)
					}
					w.WriteHeader(http.StatusCreated)
				}))
				return http.StatusText(answer.Code), answer.Header().Get("Idempotency-Problem"), answer.Header().Get("Idempotency-Result")
			}
			if name == "in front" {
				ok := serve(t, module, rand.Text(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
				require.Equal(t, http.StatusOK, ok.Code)
				execute(t, admin, revoke+role)
			}
			defer execute(t, admin, grant+role)
			code, problem, result := send(true)
			require.Equal(t, http.StatusText(http.StatusServiceUnavailable), code)
			e := events.last(core.EventFailed)
			require.ErrorContains(t, e.Err, "42501")
			execute(t, admin, grant+role)
			switch name {
			case "in front":
				require.Equal(t, "store_unavailable", problem)
				require.Zero(t, ran)
			case "Resume, behind a commit":
				require.Equal(t, "commit_unconfirmed", problem)
				require.Equal(t, "unknown", result)
			default:
				require.Equal(t, "rolled_back", problem)
				require.ErrorContains(t, e.Err, "recordAnswer")
				code, _, result = send(false)
				require.Equal(t, http.StatusText(http.StatusCreated), code, "the key was free")
				require.Equal(t, "created", result)
			}
		})
	}
}

// A migration beside a running app makes the plans useless that its connections have cached: they are made again.
//
// CONTRACT X-0, F-1
func TestStalePlansOfTheLibrary(t *testing.T) {
	t.Parallel()
	db := newPostgres(t, 3)
	module := newModule(t, newStore(t, db), core.Policy{Recovery: core.Park})
	pay := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	keys := []string{rand.Text(), rand.Text(), rand.Text()}
	for range 2 {
		for _, key := range keys {
			require.Equal(t, http.StatusCreated, serve(t, module, key, pay).Code)
		}
	}
	execute(t, db, "ALTER TABLE idempotency_record ALTER COLUMN status TYPE integer")
	for _, key := range keys {
		require.Equal(t, http.StatusCreated, serve(t, module, key, pay).Code)
	}
	require.Equal(t, http.StatusCreated, serve(t, module, rand.Text(), pay).Code)
}
