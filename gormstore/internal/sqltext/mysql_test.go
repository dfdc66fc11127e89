package sqltext

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What the server does with each of them is asked in internal/dialect/mysql/suite.
//
// CONTRACT
func TestMySQL(t *testing.T) {
	for text, want := range map[string]Findings{
		"":                                 {},
		";; ":                              {},
		"SELECT 1":                         {},
		"(SELECT 1)":                       {},
		"SELECT `a`.`b` FROM t # ; COMMIT": {},
		"SELECT NOW(6), COUNT(*), IF(1, 2, 3), DATE_ADD(x, INTERVAL 1 DAY) FROM t USE INDEX (i) WHERE x IN (1)": {},
		"INSERT INTO `t` (`a`) VALUES (?) ON DUPLICATE KEY UPDATE `a` = VALUES(`a`)":                            {Writes: true},
		"REPLACE INTO t VALUES (1)":         {Writes: true},
		"ANALYZE UPDATE t SET a = 1":        {Writes: true},
		"SAVEPOINT `mine`":                  {Marks: "mine"},
		"ROLLBACK WORK TO SAVEPOINT `mine`": {Undoes: "mine"},
		"SET @a = (SELECT 1, 2)":            {Residue: []string{"SET"}},
		"SET SESSION time_zone = '+00:00'":  {Residue: []string{"SET"}},
		"SET @@local.time_zone = '+00:00'":  {Residue: []string{"SET"}},
		"SELECT @a := 1":                    {Residue: []string{"@"}},
		"SELECT 1 INTO @a":                  {Residue: []string{"@"}, Writes: true},
		"SELECT GET_LOCK('a', 1)":           {Residue: []string{"get_lock"}, Writes: true},
		"SELECT shop.now()":                 {Residue: []string{"now"}, Writes: true},
		"CALL charge()":                     {Residue: []string{"CALL"}, Writes: true, Calls: true},
		"CREATE TEMPORARY TABLE t (a int)":  {Residue: []string{"CREATE"}, Writes: true},
		"USE shop":                          {Residue: []string{"USE"}},
	} {
		require.Equal(t, want, Inspect(MySQL, text), text)
	}
	for _, text := range []string{
		"COMMIT", "`a`: BEGIN NOT ATOMIC COMMIT; END", "SELECT 1 --\x01\n; COMMIT", "SELECT 1--2; COMMIT", "SELECT 1 /* /* */; COMMIT", "SELECT 1; # '\nCOMMIT; -- '",
		`SELECT '\'; COMMIT; -- '`, `SELECT '\\'; COMMIT; -- '`, `SELECT "\"; COMMIT; -- "`, `SELECT "'"; COMMIT; -- '"`, "SELECT 1; /*!COMMIT*/", "/*M!100000 x */",
		"SELECT `'`; COMMIT; -- '`", "SAVEPOINT " + Savepoint, "RELEASE SAVEPOINT `" + Savepoint + "`", "ROLLBACK TO " + MessageSavepoint,
		"SET @a = 1, @@autocommit = 0", "SET @a = (1), SESSION sql_mode = ''", "SET GLOBAL time_zone = 'x'", "DROP TEMPORARY SEQUENCE s",
	} {
		require.ErrorIs(t, Inspect(MySQL, text).Control, ErrControl, text)
	}
	for text, why := range map[string]string{
		"SELECT 1": "", "SELECT UUID()": "", "SELECT /*! 1 */ 1": executableComment, "SELECT f(1)": "the function f",
		"SELECT 1 # '\n; DELETE FROM t; -- '": "DELETE", "SELECT 1 INTO OUTFILE 'x'": "INTO",
	} {
		require.Equal(t, why, MayWrite(MySQL, text), text)
	}
	require.Equal(t, "LOCK IN SHARE MODE", Locks(MySQL, "SELECT a FROM t LOCK IN SHARE MODE"))
}
