package gormstore_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// The server refuses a statement of the library itself, here for a right that a deployment has just revoked. No command is to
// blame. Nothing is applied and the key is free, or it is not known and never freed; and an event names the statement.
//
// CONTRACT, F-1
func TestStatementsOfTheLibraryThatAreRefused(t *testing.T) {
	t.Parallel()
	const records, steps = "INSERT, UPDATE ON idempotency_record", "INSERT, UPDATE ON idempotency_step"
	for name, c := range map[string]struct {
		recovery           core.Recovery
		right              string
		inFront            bool
		work               func(t *testing.T, ctx context.Context, revoke func()) // the handler's
		status             int                                                    // that it answers; 0: 201
		problem, statement string
		repeat             int // the status of a repeat with the right, when all leases are over
	}{
		"in front": {
			recovery: core.Park, right: records, inFront: true, problem: "store_unavailable", statement: "insertRecord", repeat: 201,
		},
		"in front, a look": {
			recovery: core.Rollback, right: "SELECT ON idempotency_record", inFront: true, problem: "store_unavailable",
			statement: "lookFirst", repeat: 201,
		},
		"Park, at its end": {
			recovery: core.Park, right: records, work: revoking, problem: "commit_unconfirmed", statement: "complete", repeat: 409,
		},
		"Rollback": {
			recovery: core.Rollback, right: records, problem: "rolled_back", statement: "recordAnswer", repeat: 201,
			work: func(t *testing.T, ctx context.Context, revoke func()) {
				require.NoError(t, gormstore.Tx(ctx).Exec("SELECT 1").Error)
				revoke()
			},
		},
		"Resume": {
			recovery: core.Resume, right: records, work: revoking, problem: "rolled_back", statement: "recordAnswer", repeat: 201,
		},
		"Resume, at its first call": {
			recovery: core.Resume, right: records, work: revokedBetween(0, aCall), problem: "rolled_back",
			statement: "recordRunning", repeat: 201,
		},
		"Resume, at its end": {
			recovery: core.Resume, right: records, work: func(t *testing.T, ctx context.Context, revoke func()) {
				require.NoError(t, aCall(ctx, "call"))
				revoke()
			}, problem: "commit_unconfirmed", statement: "sealAnswer", repeat: 201,
		},
		"Resume, at a call": {
			recovery: core.Resume, right: records, work: revokedBetween(1, aCall), problem: "commit_unconfirmed",
			statement: "sealRunning", repeat: 201,
		},
		"Resume, at a call, answered by 404": {
			recovery: core.Resume, right: steps, work: revokedBetween(1, aCall), status: 404, problem: "commit_unconfirmed",
			statement: "putSteps", repeat: 404,
		},
		"Resume, at a call, answered by 500": {
			recovery: core.Resume, right: records, work: revokedBetween(1, aCall), status: 500, problem: "commit_unconfirmed",
			statement: "sealRunning", repeat: 500,
		},
		"Resume, at the result of a call": {
			recovery: core.Resume, right: records, work: func(t *testing.T, ctx context.Context, revoke func()) {
				begun := false
				err := core.CallDo(ctx, "once", func(context.Context, core.DerivedKey) error {
					begun = true
					revoke()
					return nil
				})
				if begun {
					require.ErrorIs(t, err, store.ErrStatement)
					require.ErrorIs(t, aCall(ctx, "behind"), core.ErrSegmentLost)
				}
			}, problem: "commit_unconfirmed", statement: "sealRunning", repeat: 409,
		},
		"Resume, at the opening of a segment": {
			recovery: core.Resume, right: "SELECT ON idempotency_record", problem: "commit_unconfirmed", statement: "ownsRecord",
			repeat: 201, work: func(t *testing.T, ctx context.Context, revoke func()) {
				require.NoError(t, aCall(ctx, "call"))
				revoke()
				if err := gormstore.StepDo(ctx, "book", func(*gorm.DB) error { return nil }); err != nil {
					require.ErrorIs(t, err, store.ErrStatement)
					require.ErrorIs(t, aCall(ctx, "behind"), core.ErrSegmentLost)
				}
			},
		},
		"Resume, at a checkpoint": {
			recovery: core.Resume, right: records, problem: "commit_unconfirmed", statement: "sealRunning", repeat: 201,
			work: revokedBetween(1, func(ctx context.Context, name string) error {
				if err := gormstore.StepDo(ctx, name, func(*gorm.DB) error { return nil }); err != nil {
					return err
				}
				return core.Checkpoint(ctx)
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := migratedURL(t)
			admin := openPostgres(t, url, 2)
			role := newRole(t, admin)
			execute(t, admin, "GRANT USAGE ON SCHEMA "+currentSchema(t, admin)+" TO "+role,
				"GRANT ALL ON ALL TABLES IN SCHEMA "+currentSchema(t, admin)+" TO "+role,
				"GRANT ALL ON ALL SEQUENCES IN SCHEMA "+currentSchema(t, admin)+" TO "+role)
			st := newStore(t, openPostgres(t, url+"&role="+role, 4))
			events := &told{}
			module := try(core.New(core.Config{Store: st, Policy: core.Policy{Recovery: c.recovery}, Observer: events})).ok(t)
			revoke := func() { execute(t, admin, "REVOKE "+c.right+" FROM "+role) }
			status := cmp.Or(c.status, http.StatusCreated)
			ran, key := 0, rand.Text()
			send := func(revoke func()) *httptest.ResponseRecorder {
				return serve(t, module, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					ran++
					if c.work != nil {
						c.work(t, r.Context(), revoke)
					}
					w.WriteHeader(status)
				}))
			}
			if c.inFront {
				require.Equal(t, http.StatusOK, serve(t, module, rand.Text(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).Code)
				revoke()
			}
			answer := send(revoke)
			require.Equal(t, http.StatusServiceUnavailable, answer.Code)
			require.Equal(t, c.problem, answer.Header().Get("Idempotency-Problem"))
			if c.problem == "commit_unconfirmed" {
				require.Equal(t, "unknown", answer.Header().Get("Idempotency-Result"))
			}
			require.Equal(t, c.inFront, ran == 0)
			failed := events.last(core.EventFailed).Err
			require.ErrorIs(t, failed, store.ErrStatement)
			require.ErrorContains(t, failed, c.statement)
			require.ErrorContains(t, failed, "42501")

			execute(t, admin, "GRANT "+c.right+" TO "+role)
			if c.problem == "commit_unconfirmed" {
				require.Equal(t, "in_flight", send(func() {}).Header().Get("Idempotency-Problem"), "the key is not free")
				advance(t, admin, time.Hour)
			}
			answer = send(func() {})
			if c.inFront { // the claim is taken back behind its answer
				eventually(t, "the claim is taken back", func() bool {
					if answer.Header().Get("Idempotency-Problem") == "in_flight" {
						answer = send(func() {})
						return false
					}
					return true
				})
			}
			require.Equal(t, c.repeat, answer.Code)
			if c.recovery == core.Park && !c.inFront {
				require.Equal(t, "outcome_unknown", answer.Header().Get("Idempotency-Problem"))
				require.Equal(t, 1, ran)
			}
		})
	}
}

func revoking(_ *testing.T, _ context.Context, revoke func()) { revoke() }

// revokedBetween seals first times, and once more without the right. The handler ignores the error, but nothing begins any
// more behind it.
func revokedBetween(first int, seal func(context.Context, string) error) func(*testing.T, context.Context, func()) {
	return func(t *testing.T, ctx context.Context, revoke func()) {
		for i := range first {
			require.NoError(t, seal(ctx, strconv.Itoa(i)))
		}
		revoke()
		if err := seal(ctx, "refused"); err != nil {
			require.ErrorIs(t, err, store.ErrStatement)
			require.ErrorIs(t, seal(ctx, "behind"), core.ErrSegmentLost)
		}
	}
}

func aCall(ctx context.Context, name string) error {
	return core.CallDo(ctx, name, func(context.Context, core.DerivedKey) error { return nil }, core.Dedup(time.Hour))
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
	execute(t, db, "ALTER TABLE idempotency_record ALTER COLUMN answer_encoding TYPE integer")
	for _, key := range keys {
		require.Equal(t, http.StatusCreated, serve(t, module, key, pay).Code)
	}
	require.Equal(t, http.StatusCreated, serve(t, module, rand.Text(), pay).Code)
}
