package gormstore_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// An answer of the server that cannot be read, here times in another style of dates, is no answer: whether the segment has
// committed is read back. A style that the handler itself has set is taken back before.
//
// CONTRACT
func TestCommitWhoseAnswerCannotBeRead(t *testing.T) {
	onDatabases(t, []string{"postgres", "postgres simple protocol", "postgres wrapped"}, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		execute(t, db, `CREATE FUNCTION german() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN PERFORM set_config('DateStyle', 'German', true); RETURN NEW; END $$`,
			"CREATE TRIGGER german AFTER INSERT ON effects FOR EACH ROW WHEN (NEW.name = 'german') EXECUTE FUNCTION german()")
		st := newStore(t, db)
		for _, change := range []string{"SET LOCAL DateStyle = 'German'", "INSERT INTO effects (name) VALUES ('german')"} {
			for _, recovery := range []core.Recovery{core.Rollback, core.Resume} {
				module := newModule(t, st, core.Policy{Recovery: recovery})
				key := rand.Text()
				answer := serve(t, module, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					err := changed(r.Context(), recovery, change)
					if err != nil {
						w.WriteHeader(http.StatusInternalServerError)
						return
					}
					w.WriteHeader(http.StatusCreated)
				}))
				if db.Name() == "postgres" && answer.Code != http.StatusCreated { // the driver waits for each reply before COMMIT
					require.Contains(t, change, "INSERT")
					require.Contains(t, t.Name(), "wrapped")
					require.Equal(t, "rolled_back", answer.Header().Get("Idempotency-Problem"), answer.Body)
					continue
				}
				requireRecorded(t, answer)
				again := serve(t, module, key, http.NotFoundHandler())
				require.Equal(t, "reused", again.Header().Get("Idempotency-Result"), again.Body)
			}
		}
	})
}

// changed sends a statement in the attempt, and makes a call behind it where it may.
func changed(ctx context.Context, recovery core.Recovery, change string) error {
	if recovery == core.Rollback {
		return gormstore.Tx(ctx).Exec(change).Error
	}
	step := func(tx *gorm.DB) error { return tx.Exec(change).Error }
	if err := gormstore.StepDo(ctx, "before", step); err != nil {
		return err
	}
	call := func(context.Context, core.DerivedKey) error { return nil }
	if err := core.CallDo(ctx, "call", call, core.Dedup(time.Hour)); err != nil {
		return err
	}
	return gormstore.StepDo(ctx, "behind", step)
}
