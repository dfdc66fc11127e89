package interop_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/plugin/dbresolver"

	"github.com/auth19/idem/core/idemtest"
	"github.com/auth19/idem/gormstore"
)

// Behind dbresolver, a handler of Park writes to the primary and reads from a replica that lags. CreateOnce looks for the
// operation's row where it was written.
//
// CONTRACT D-3
func TestCreateOnceBehindAReplica(t *testing.T) {
	db := openPostgres(t)
	require.NoError(t, db.AutoMigrate(&newPayment{}))
	replica := openPostgres(t) // another database, which never gets a row
	require.NoError(t, replica.AutoMigrate(&newPayment{}))
	pool, err := replica.DB()
	require.NoError(t, err)
	require.NoError(t, db.Use(dbresolver.Register(dbresolver.Config{
		Replicas: []gorm.Dialector{postgres.New(postgres.Config{Conn: pool})},
	})))
	for _, created := range []bool{true, false} {
		got, err := pay(t, db, "key-1")
		require.NoError(t, err)
		require.Equal(t, created, got)
	}
	_, err = pay(t, db, "key-2")
	require.NoError(t, err)
	var there int64
	require.NoError(t, db.Model(&newPayment{}).Count(&there).Error)
	require.Zero(t, there, "the app's own reads go to the replica")
	require.NoError(t, db.Clauses(dbresolver.Write).Model(&newPayment{}).Count(&there).Error)
	require.EqualValues(t, 2, there)
}

// hooked is a row whose Create does more than one statement, so that CreateOnce opens a transaction for it.
type hooked struct {
	gormstore.Once
	ID   uint
	Seen int
}

func (h *hooked) BeforeCreate(*gorm.DB) error {
	h.Seen++
	return nil
}

// A table of another source is booked there, also where CreateOnce opens the transaction.
//
// CONTRACT D-1
func TestCreateOnceInAnotherSource(t *testing.T) {
	db, source := openPostgres(t), openPostgres(t)
	require.NoError(t, source.AutoMigrate(&hooked{}))
	pool, err := source.DB()
	require.NoError(t, err)
	require.NoError(t, db.Use(dbresolver.Register(dbresolver.Config{
		Sources: []gorm.Dialector{postgres.New(postgres.Config{Conn: pool})},
	}, &hooked{})))
	ctx := idemtest.Context(t.Context(), idemtest.Config{})
	for _, created := range []bool{true, false} {
		got, err := gormstore.CreateOnce(db.WithContext(ctx), &hooked{})
		require.NoError(t, err)
		require.Equal(t, created, got)
	}
}
