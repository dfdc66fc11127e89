package suite

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/mariatest"
)

// A server on which no test has passed is refused by its name, unless the app says that it tries it.
//
// CONTRACT F-5
func TestUntried(t *testing.T) {
	db := open(t, mariatest.AddressWith(t, "--version=8.4.3"))
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	st, err := gormstore.New(db)
	require.NoError(t, err)
	for _, err := range []error{st.Validate(t.Context()), gormstore.Audit(t.Context(), db)} {
		require.ErrorContains(t, err, "the server is 8.4.3")
		require.ErrorContains(t, err, "gormstore.Untried")
	}
	_, err = st.Claim(t.Context(), store.Claim{})
	require.ErrorIs(t, err, store.ErrUnfit)
	st, err = gormstore.New(db, gormstore.Untried())
	require.NoError(t, err)
	require.NoError(t, st.Validate(t.Context()))
	require.NoError(t, gormstore.Audit(t.Context(), db))
}

// What the server or the address has is found, and the line that is named mends it.
//
// CONTRACT F-2, F-5
func TestValidate(t *testing.T) {
	db, address := migrated(t)
	require.NoError(t, newStore(t, db).Validate(t.Context()))
	for _, one := range []struct{ breaks, mends string }{
		{"tx_isolation='SERIALIZABLE'", "tx_isolation='REPEATABLE-READ'"},
		{"completion_type=1", "completion_type=0"},
		{"sql_mode=''", "sql_mode='TRADITIONAL'"},
		{"idle_transaction_timeout=0", "idle_transaction_timeout=120"},
		{"innodb_lock_wait_timeout=600", "innodb_lock_wait_timeout=50"},
		{"autocommit=0", "autocommit=1"},
		{"innodb_snapshot_isolation=1", "innodb_snapshot_isolation=0"},
	} {
		escape := strings.NewReplacer("'", "%27").Replace
		st, err := gormstore.New(open(t, address+"?"+escape(one.breaks)))
		require.NoError(t, err)
		name, _, _ := strings.Cut(one.breaks, "=")
		require.ErrorContains(t, st.Validate(t.Context()), name, one.breaks)
		st, err = gormstore.New(open(t, address+"?"+escape(one.mends)))
		require.NoError(t, err)
		require.NoError(t, st.Validate(t.Context()), one.mends)
	}
	blind := open(t, address+"?sql_mode=%27TRADITIONAL,NO_BACKSLASH_ESCAPES%27") // a backslash is one there
	for _, one := range []struct{ breaks, finds, mends string }{
		{"ALTER TABLE processed_message ENGINE = MyISAM", "ENGINE = InnoDB", "ALTER TABLE processed_message ENGINE = InnoDB"},
		{"ALTER TABLE idempotency_record ROW_FORMAT = COMPRESSED", "ROW_FORMAT = DYNAMIC", "ALTER TABLE idempotency_record ROW_FORMAT = DYNAMIC"},
		{"ALTER TABLE processed_message MODIFY message_id varchar(255) NOT NULL", "message_id", "ALTER TABLE processed_message MODIFY message_id varbinary(255) NOT NULL"},
		{"DELETE FROM idempotency_lock WHERE slot = 7", "65535 rows", "INSERT IGNORE INTO idempotency_lock (slot) VALUES (7)"},
	} {
		st, of := newStore(t, db), newStore(t, blind)
		require.NoError(t, db.Exec(one.breaks).Error)
		require.ErrorContains(t, st.Validate(t.Context()), one.finds, one.breaks)
		require.ErrorContains(t, of.Validate(t.Context()), one.finds, one.breaks)
		require.NoError(t, db.Exec(one.mends).Error)
		require.NoError(t, st.Validate(t.Context()), one.mends)
	}
}
