package gormstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// Keys whose records shared the 32-bit lock of an earlier layout, found by trying 2^18 of them, and keys that were made
// within one millisecond: none holds up the other's principal.
//
// CONTRACT K-9, S-1
func TestLocksOfTwoPrincipalsDoNotCollide(t *testing.T) {
	db := freshPostgres("", false)(t)(t)
	st := newStore(t, db)
	claim := func(subject, key string) store.Claim {
		p := core.Principal{Issuer: "https://issuer.example", Subject: subject}
		c := command(core.Rollback)
		c.ID, c.Scope = core.Scoping{}.RecordID(p, key), core.Scoping{}.PrincipalScope(p)
		return c
	}
	for _, keys := range [][2]string{
		{"order-138624", "order-40575"},
		{"order-135667", "order-43881"},
		{"0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c", "0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1d"},
	} {
		tx, _ := begin(t, st, claim("alice", keys[0]))
		other, _ := begin(t, st, claim("bob", keys[1])) // which does not wait for alice's
		require.NoError(t, other.Rollback())

		var locks []struct{ Objsubid int }
		require.NoError(t, db.Raw("SELECT objsubid FROM pg_locks WHERE locktype = 'advisory' AND database = "+
			"(SELECT oid FROM pg_database WHERE datname = current_database())").Scan(&locks).Error)
		require.Equal(t, []struct{ Objsubid int }{{1}}, locks, "the record's lock, in the form of one number of 64 bits")
		require.NoError(t, tx.Rollback())
	}
}
