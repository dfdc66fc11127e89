package suite

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore"
)

// Booking is a money row.
type Booking struct {
	ID     uint
	Number string `gorm:"size:64;not null;uniqueIndex:,composite:operation"`
	gormstore.Once
}

// Legacy is one in a table that a test makes.
type Legacy struct {
	ID     uint
	Number string `gorm:"size:64;not null;uniqueIndex:,composite:operation"`
	gormstore.Once
}

// A row is created once, whatever the address says of counted rows.
//
// CONTRACT D-1, D-2
func TestOnce(t *testing.T) {
	plain, address := migrated(t)
	require.NoError(t, plain.AutoMigrate(&Booking{}, &Legacy{}))
	for _, options := range []string{"", "?clientFoundRows=true"} {
		db := open(t, address+options)
		newStore(t, db)
		require.NoError(t, gormstore.Audit(t.Context(), db, &Booking{}))
		require.NoError(t, db.Exec("ALTER TABLE legacies ENGINE = MyISAM").Error)
		require.ErrorContains(t, gormstore.Audit(t.Context(), db, &Legacy{}), "ENGINE = InnoDB")
		require.NoError(t, db.Exec("ALTER TABLE legacies ENGINE = InnoDB").Error)
		require.NoError(t, gormstore.Audit(t.Context(), db, &Legacy{}))

		box := newInbox(t, db)
		require.NoError(t, box.Process(t.Context(), message("once"+options), func(tx *gorm.DB) error {
			for n := range 3 {
				row := Booking{Number: "7"}
				created, err := gormstore.CreateOnce(tx, &row)
				require.NoError(t, err)
				require.Equal(t, n == 0, created)
				require.NotZero(t, row.ID)
			}
			other := Booking{Number: "8"}
			created, err := gormstore.CreateOnce(tx, &other)
			require.NoError(t, err)
			require.True(t, created)
			return nil
		}))
		var n int64
		require.NoError(t, db.Table("bookings").Count(&n).Error)
		require.Equal(t, int64(2), n)
		require.NoError(t, db.Exec("DELETE FROM bookings").Error)
	}
}
