package suite

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/gormstore/internal/sqltext"
)

// What a handler may send, a statement in each line, by what the server does with it.
const (
	ending = `
COMMIT
commit work
COMMIT AND CHAIN
COMMIT RELEASE
BEGIN
BEGIN WORK
START TRANSACTION
START TRANSACTION READ ONLY
ROLLBACK
ROLLBACK AND CHAIN
(SELECT 1); COMMIT
/*!50000 COMMIT */
/*M! COMMIT */
/*!100000 ROLLBACK*/
/* a */ -- b
# a 'quote"
BEGIN NOT ATOMIC COMMIT; END
IF 1 THEN COMMIT; END IF
SET autocommit = 0; SET autocommit = 1
SET @@autocommit = 0; SET @@autocommit = 1
SET @a = 1, autocommit = 0; SET SESSION autocommit = ON
SET STATEMENT max_statement_time = 1 FOR COMMIT
SET PASSWORD FOR idem@'127.0.0.1' = PASSWORD('idem')
SET DEFAULT ROLE NONE FOR nobody@'127.0.0.1'
EXECUTE IMMEDIATE 'COMMIT'
PREPARE p FROM 'COMMIT'; EXECUTE p
CALL commits()
CREATE TABLE effects (a int)
CREATE TABLE t_of_test (a int) ENGINE=InnoDB
CREATE OR REPLACE TABLE t_of_test (a int) ENGINE=InnoDB
CREATE TABLE IF NOT EXISTS t_of_test (a int)
DROP TABLE IF EXISTS t_of_test
DROP TABLE no_such_table
ALTER TABLE no_such_table ADD COLUMN b int
ALTER TABLE effects COMMENT = 'x'
ALTER TABLE effects ADD INDEX i (name)
DROP INDEX i ON effects
DROP INDEX i ON no_such_table
CREATE INDEX j ON effects (name)
ALTER TABLE effects DROP INDEX j
TRUNCATE effects
TRUNCATE TABLE effects
RENAME TABLE no_such_table TO t
LOCK TABLES effects WRITE
LOCK TABLE effects READ
CREATE VIEW v_of_test AS SELECT 1
ALTER VIEW v_of_test AS SELECT 2
DROP VIEW v_of_test
CREATE SEQUENCE s_of_test
ALTER SEQUENCE s_of_test RESTART
DROP SEQUENCE s_of_test
CREATE TRIGGER g_of_test BEFORE INSERT ON effects FOR EACH ROW SET NEW.name = 'x'
DROP TRIGGER g_of_test
CREATE PROCEDURE p_of_test() SELECT 1
ALTER PROCEDURE p_of_test COMMENT 'x'
DROP PROCEDURE p_of_test
CREATE FUNCTION f_of_test() RETURNS int RETURN 1
DROP FUNCTION f_of_test
CREATE EVENT e_of_test ON SCHEDULE EVERY 1 DAY DO SELECT 1
ALTER EVENT e_of_test DISABLE
DROP EVENT e_of_test
CREATE DATABASE d_of_test
ALTER DATABASE d_of_test CHARACTER SET utf8mb4
DROP DATABASE d_of_test
CREATE USER u_of_test
ALTER USER u_of_test IDENTIFIED BY 'x'
RENAME USER u_of_test TO w_of_test
GRANT SELECT ON effects TO nobody
GRANT SELECT ON *.* TO w_of_test
REVOKE SELECT ON *.* FROM w_of_test
DROP USER w_of_test
CREATE ROLE r_of_test
DROP ROLE r_of_test
FLUSH TABLES
FLUSH STATUS
ANALYZE TABLE effects
ANALYZE NO_WRITE_TO_BINLOG TABLE effects
OPTIMIZE TABLE effects
CHECK TABLE effects
REPAIR TABLE effects
RESET QUERY CACHE
BACKUP STAGE START
CREATE SERVER s_of_test FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x')
DROP SERVER s_of_test
INSTALL SONAME 'no_such_library'
`
	going = `
SELECT 1
SELECT 'COMMIT; COMMIT'
SELECT "COMMIT"
SELECT 1 -- ; COMMIT
SELECT 1 # ; COMMIT
SELECT 1 /* ; COMMIT */
SELECT 3--1
VALUES (1)
INSERT INTO effects (name) VALUES ('a')
INSERT INTO effects VALUES ('a''b')
REPLACE INTO effects (name) VALUES ('a')
UPDATE effects SET name = 'b' LIMIT 1
DELETE FROM effects WHERE name = 'nobody'
WITH a AS (SELECT 1 AS n) SELECT n FROM a
SELECT * FROM effects FOR UPDATE
SHOW TABLES
EXPLAIN SELECT 1
ANALYZE SELECT 1
ANALYZE FORMAT=JSON SELECT 1
DESCRIBE effects
DO SLEEP(0)
CHECKSUM TABLE effects
SAVEPOINT mine
RELEASE SAVEPOINT no_such_savepoint
ROLLBACK TO SAVEPOINT m
ROLLBACK WORK TO m
SET @a = 1
SET innodb_lock_wait_timeout = 5
SET SESSION group_concat_max_len = 4096, @b = 7
CREATE TEMPORARY TABLE mine (a int)
DROP TEMPORARY TABLE IF EXISTS mine
CALL looks()
CALL no_such_procedure()
USE mysql
SIGNAL SQLSTATE '45000'
NONSENSE` + "\nSELECT 1 AS `;` FROM DUAL WHERE 'COMMIT' = '; COMMIT'\n"

	// refusedToo end no transaction here, and may elsewhere, or change how it commits.
	refusedToo = `
SELECT /*! 1 */
SELECT '\'; COMMIT; -- '
SELECT "\"; COMMIT; -- "
CACHE INDEX effects IN nothing
LOAD INDEX INTO CACHE effects
SET autocommit = 0
SET autocommit = 1
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE
SET sql_mode = ''
SET timestamp = 7
SET sql_select_limit = 0
SET completion_type = 1
SET NAMES utf8mb4
SET @@session.sql_log_bin = 0
SET GLOBAL innodb_flush_log_at_trx_commit = 1
PREPARE p FROM 'SELECT 1'
EXECUTE IMMEDIATE 'SELECT 1'
UNLOCK TABLES
XA START 'x'
KILL QUERY 0
NONSENSE
`
)

// Whatever ends a transaction on the server is refused before it is sent, or noticed behind it, where it is a procedure.
//
// CONTRACT X-8
func TestControl(t *testing.T) {
	db, address := migrated(t)
	require.NoError(t, db.Exec("CREATE PROCEDURE commits() COMMIT").Error)
	require.NoError(t, db.Exec("CREATE PROCEDURE looks() SELECT 1").Error)
	lines := func(of string) (all []string) {
		for line := range strings.SplitSeq(strings.TrimSpace(of), "\n") {
			if line == "/* a */ -- b" || strings.HasPrefix(line, "# a") { // comments in front
				line += "\nCOMMIT"
			}
			all = append(all, line)
		}
		return all
	}
	ended, n := 0, 0
	for _, text := range lines(ending) {
		n++
		assert.True(t, ends(t, address, text), text)
		ended++
		found := sqltext.Inspect(sqltext.MySQL, text)
		if strings.HasPrefix(text, "CALL") {
			require.NoError(t, found.Control, text)
			require.True(t, found.Calls, text)
			require.Equal(t, []string{"CALL"}, found.Residue, text)
			continue
		}
		assert.ErrorIs(t, found.Control, sqltext.ErrControl, text)
	}
	refused := lines(refusedToo)
	for _, text := range append(lines(going), refused...) {
		n++
		assert.False(t, ends(t, address, text), text)
		control := sqltext.Inspect(sqltext.MySQL, text).Control
		if strings.Contains(refusedToo, text+"\n") {
			assert.ErrorIs(t, control, sqltext.ErrControl, text)
		} else {
			assert.NoError(t, control, text)
		}
	}
	require.GreaterOrEqual(t, ended, 56)
	require.GreaterOrEqual(t, n, 90)
}

// ends reports whether a statement ends the transaction that it is sent in, over a connection of its own.
func ends(t *testing.T, address, text string) bool {
	t.Helper()
	pool, err := sql.Open("mysql", address+"?multiStatements=true")
	require.NoError(t, err)
	defer func() { _ = pool.Close() }()
	pool.SetMaxOpenConns(1)
	own, err := pool.Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = own.Close() }()
	for _, first := range []string{"START TRANSACTION", "SAVEPOINT m", "INSERT INTO effects (name) VALUES ('x')"} {
		_, err := own.ExecContext(t.Context(), first)
		require.NoError(t, err, text)
	}
	if rows, err := own.QueryContext(t.Context(), text); err == nil {
		readAll(rows)
	}
	_, err = own.ExecContext(t.Context(), "RELEASE SAVEPOINT m")
	var refused *driver.MySQLError
	if errors.As(err, &refused) && refused.Number == 1305 {
		return true
	}
	if errors.Is(err, driver.ErrInvalidConn) || err != nil && strings.Contains(err.Error(), "bad connection") { // COMMIT RELEASE
		return true
	}
	require.NoError(t, err, text)
	_, err = own.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err, text)
	return false
}

// readAll reads all rows of all statements.
func readAll(rows *sql.Rows) {
	defer func() { _ = rows.Close() }()
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
		}
	}
	_ = rows.Err() // what counts is whether the transaction is there
}
