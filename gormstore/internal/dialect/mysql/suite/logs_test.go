package suite

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/mariatest"
)

// An answer stands in the server's own logs, in hexadecimal digits, where nobody erases it. One that is sealed does not.
//
// CONTRACT K-6
func TestLogsOfTheServer(t *testing.T) {
	db := open(t, mariatest.AddressWith(t, "--log-output=TABLE", "--long-query-time=0"))
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	aead, err := gormstore.AESGCM(gormstore.SealingKey{Name: "k1", Key: key})
	require.NoError(t, err)
	for name, one := range map[string]struct {
		options []gormstore.Option
		there   bool
	}{
		"plain":  {nil, true},
		"sealed": {[]gormstore.Option{gormstore.Seal(aead)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := gormstore.New(db, one.options...)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, st.Close()) })
			require.NoError(t, st.Validate(t.Context()))
			require.NoError(t, db.Exec("SET GLOBAL general_log = 1, slow_query_log = 1").Error)
			marker := "only the customer knows: " + name
			for _, r := range []core.Recovery{core.Rollback, core.Resume} {
				a, _ := begin(t, st, command(r))
				seal := answered()
				seal.Answer.Answer.Body = []byte(marker)
				_, err := a.Seal(t.Context(), seal)
				require.NoError(t, err)
			}
			require.NoError(t, db.Exec("SET GLOBAL general_log = 0, slow_query_log = 0").Error) // else the question stands there, too
			for _, log := range []string{"general_log", "slow_log"} {
				column := map[string]string{"general_log": "argument", "slow_log": "sql_text"}[log]
				var n int64
				query := fmt.Sprintf("SELECT COUNT(*) FROM mysql.%s WHERE %[2]s LIKE ? OR %[2]s LIKE ?", log, column)
				require.NoError(t, db.Raw(query, "%idempotency%"+hex.EncodeToString([]byte(marker))+"%", "%idempotency%"+marker+"%").
					Scan(&n).Error)
				require.Equal(t, one.there, n > 0, log)
			}
		})
	}
}
