package gormstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

// A server that lets nothing be written may be a standby that lags behind, or was left behind. A repeat is not answered from
// it, whether the key was seen before or not.
//
// CONTRACT F-2
func TestNoReplayWhereNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	db := openPostgres(t, url, 2)
	st, c, other := newStore(t, db), command(store.Park), command(store.Park)
	answered(t, st, c)
	answered(t, st, other)

	became := openPostgres(t, url, 2) // after the store has found that the server will do
	readOnly := newStore(t, became)
	require.Equal(t, store.Completed, repeated(t, readOnly, c).Record.State()) // it has seen this one
	execute(t, db, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$")
	onAll(t, became, 2, "SET default_transaction_read_only = on")
	for _, c := range []store.Claim{c, other} {
		require.ErrorContains(t, err2(readOnly.Claim(t.Context(), again(c))), "25006")
	}
	_, _, err := readOnly.Begin(t.Context(), again(c))
	require.ErrorContains(t, err, "25006")
}

// All slots are taken, and the connection that is left leads to such a server: a look takes nothing from it, neither a record
// nor a lock. It goes over another connection, and fails where each leads to such a server.
//
// CONTRACT F-2
func TestNoLookWhereNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	db := openPostgres(t, url, 2)
	completed, running := command(store.Rollback), command(store.Rollback)
	other := newStore(t, openPostgres(t, url, 2))
	tx, _ := beginRow(t, other, completed)
	require.NoError(t, seal(t.Context(), tx, paid(), false))
	begin(t, other, running)

	st := newStore(t, db)
	begin(t, st, command(store.Rollback)) // takes the only slot
	look := func(c store.Claim) (store.Claimed, error) {
		_, claimed, err := st.Begin(within(t, 20*time.Second), again(c))
		return claimed, err
	}
	require.NoError(t, db.Exec("SET default_transaction_read_only = on").Error)
	require.Equal(t, store.Completed, try(look(completed)).ok(t).Record.State())
	require.NoError(t, db.Exec("SET default_transaction_read_only = on").Error)
	require.Equal(t, store.Claimed{Busy: true}, try(look(running)).ok(t))
	execute(t, db, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$",
		"SET default_transaction_read_only = on")
	for _, c := range []store.Claim{completed, running} {
		claimed, err := look(c)
		require.ErrorContains(t, err, "25006", "%+v", claimed)
		require.Zero(t, claimed)
	}
}
