package gormstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// LedgerRow is a row of a money table with partitions by time, where no UNIQUE index can do without the time.
type LedgerRow struct {
	OperationID string    `gorm:"size:64;not null"`
	BookedAt    time.Time `gorm:"not null"`
	Amount      int64
}

// LedgerOperation is the second line of the ledger: a small table without partitions.
type LedgerOperation struct {
	gormstore.Once
	BookedAt time.Time `gorm:"not null"`
}

// Book makes the row of an operation, or finds it.
func Book(tx *gorm.DB, amount int64, now time.Time) (LedgerRow, error) {
	once := LedgerOperation{BookedAt: now}
	created, err := gormstore.CreateOnce(tx, &once)
	if err != nil {
		return LedgerRow{}, err
	}
	row := LedgerRow{OperationID: once.OperationID, BookedAt: once.BookedAt, Amount: amount}
	if created {
		return row, tx.Create(&row).Error
	}
	return row, tx.Where("operation_id = ? AND booked_at = ?", once.OperationID, once.BookedAt).Take(&row).Error
}

// A money table with partitions by time gets a second table for its second line. In the table itself, a UNIQUE index lets a
// second attempt book again once the record is gone.
//
// CONTRACT D-1, D-2
func TestSecondLineOfAPartitionedTable(t *testing.T) {
	db, store := parallelStore(t)
	require.NoError(t, db.Exec("CREATE TABLE ledger_rows (operation_id varchar(64) NOT NULL, booked_at timestamptz NOT NULL, "+
		"amount bigint, UNIQUE (operation_id, booked_at)) PARTITION BY RANGE (booked_at)").Error)
	require.NoError(t, db.Exec("CREATE TABLE ledger_all PARTITION OF ledger_rows DEFAULT").Error)
	require.NoError(t, db.AutoMigrate(&LedgerOperation{}))
	require.ErrorContains(t, gormstore.Audit(t.Context(), db, &LedgerRow{}), "protects nothing: booked_at is a time")
	require.NoError(t, gormstore.Audit(t.Context(), db, &LedgerOperation{}))

	module := newModule(t, store, core.Policy{Recovery: core.Rollback})
	c, now := cashier{t, db, module, gormstore.Tx}, time.Now()
	for range 2 { // the record of the first is lost
		now = now.Add(time.Second)
		c.run(alice, "key-1", "{}", func(tx *gorm.DB) {
			row := try(Book(tx, 100, now)).ok(t)
			require.EqualValues(t, 100, row.Amount)
		})
	}
	var rows int64
	require.NoError(t, db.Model(&LedgerRow{}).Count(&rows).Error)
	require.EqualValues(t, 1, rows)
}
