package gormstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

// Two instances of two releases change the age of a route at once. The second one waits for the first one's, and judges
// the keys from before by the shorter of both.
//
// CONTRACT T-6
func TestAgesChangeOneAfterTheOther(t *testing.T) {
	db, st := parallelStore(t)
	const route = "POST /v1/payments"
	realm := command(store.Park).Realm
	keep := func(age time.Duration) (store.AgeLimit, error) {
		return st.KeepAge(patient(t), realm[:8], route, age, store.Window{})
	}
	first := try(keep(20 * time.Hour)).ok(t)
	require.Equal(t, 20*time.Hour, first.Before)

	other := opened(t, db) // what KeepAge writes for an age of an hour
	require.NoError(t, other.Exec("SELECT 1 FROM idempotency_setting WHERE name LIKE 'key_age/%' FOR UPDATE").Error)
	kept, done := store.AgeLimit{}, make(chan error, 1)
	go func() {
		var err error
		kept, err = keep(40 * time.Hour)
		done <- err
	}()
	sessions(t, db, 1, "wait_event_type = 'Lock'") // the second waits for the first
	require.NoError(t, other.Exec("UPDATE idempotency_setting SET value = '3600000000 ' || split_part(value, ' ', 2) || ' 3600000000'"+
		" WHERE name LIKE 'key_age/%'").Error)
	require.NoError(t, other.Commit().Error)
	require.NoError(t, <-done)
	require.Equal(t, 40*time.Hour, kept.Age)
	require.Equal(t, time.Hour, kept.Before, "keys were refused that are an hour old")
	require.Equal(t, kept, try(keep(40*time.Hour)).ok(t))
}
