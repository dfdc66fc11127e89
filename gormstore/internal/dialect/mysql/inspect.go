package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/auth19/idem/gormstore/internal/dialect"
)

const tableColumns = `SELECT CONCAT(c.table_name, '.', c.column_name) FROM information_schema.columns c
WHERE c.table_schema = TRIM(BOTH '` + "`" + `' FROM ?) AND FIND_IN_SET(c.table_name, ?)`

const columns = "SELECT c.column_name FROM information_schema.columns c WHERE c.table_schema = DATABASE() AND c.table_name = ?"

// uniqueIndexes: see dialect.Dialect.
const uniqueIndexes = `SELECT CONCAT(':', GROUP_CONCAT(CONCAT(s.column_name, IF(c.is_nullable = 'YES', '?', ''),
		CASE WHEN c.extra LIKE '%GENERATED%' THEN '!is generated' WHEN c.extra LIKE '%auto_increment%' THEN '!comes from a sequence'
			WHEN c.column_default IS NOT NULL AND c.column_default <> 'NULL' THEN '!has a default'
			WHEN c.data_type IN ('date', 'datetime', 'timestamp', 'time', 'year') THEN '!is a time' ELSE '' END)
		ORDER BY s.seq_in_index SEPARATOR ','))
FROM information_schema.statistics s JOIN information_schema.columns c
	ON c.table_schema = s.table_schema AND c.table_name = s.table_name AND c.column_name = s.column_name
WHERE s.table_schema = DATABASE() AND s.table_name = ? AND s.non_unique = 0 GROUP BY s.index_name`

const earlyTriggers = `SELECT t.trigger_name FROM information_schema.triggers t WHERE t.event_object_schema = DATABASE()
	AND t.event_object_table = ? AND t.event_manipulation = 'INSERT' AND t.action_timing = 'BEFORE'`

const settings = `SELECT @@innodb_flush_log_at_trx_commit, @@log_bin AND @@sync_binlog <> 1, @@innodb_doublewrite, @@read_only,
	@@tx_isolation, @@autocommit, @@sql_mode, @@completion_type, @@version`

// inspect checks the settings of the server and of the connection, and the tables' engine.
func inspect(ctx context.Context, q dialect.Querier, schema string, need dialect.Rights, _ bool) []error {
	var flush int
	var unsynced, doublewrite, readOnly, autocommit bool
	var isolation, mode, completion, version string
	err := q.QueryRowContext(ctx, settings).Scan(&flush, &unsynced, &doublewrite, &readOnly, &isolation, &autocommit, &mode,
		&completion, &version)
	if err != nil {
		return []error{err}
	}
	var errs []error
	add := func(wrong bool, text string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(text, args...))
		}
	}
	if readOnly {
		errs = append(errs, dialect.NoWritesError("the server is read_only: connect to the primary"))
	}
	add(!strings.Contains(version, "MariaDB"), "the server is %q: only MariaDB was tried", version)
	add(flush != 1, "innodb_flush_log_at_trx_commit is %d: a crash would lose money; set it to 1", flush)
	add(unsynced, "sync_binlog is not 1: a crash would lose money; set it to 1")
	add(!doublewrite, "innodb_doublewrite is off: a crash could tear a page; set it to ON")
	add(isolation == "SERIALIZABLE" || isolation == "READ-UNCOMMITTED", "transaction_isolation is %s: use READ-COMMITTED or "+
		"REPEATABLE-READ", isolation)
	add(!autocommit, "autocommit is off: take it out of the connection's address")
	add(completion != "NO_CHAIN", "completion_type is %s: set it to NO_CHAIN", completion)
	add(!strings.Contains(mode, "STRICT_TRANS_TABLES"), "sql_mode lacks STRICT_TRANS_TABLES: texts and numbers would be cut in "+
		"silence")
	if len(need) == 0 {
		return errs
	}
	flaws, err := dialect.Texts(ctx, q, `SELECT CONCAT('table ', t.table_name, ' has the engine ', t.engine,
		': its rows stay after ROLLBACK; ALTER TABLE ', t.table_name, ' ENGINE = InnoDB') FROM information_schema.tables t
		WHERE t.table_schema = TRIM(BOTH '`+"`"+`' FROM ?) AND t.table_type = 'BASE TABLE' AND t.engine <> 'InnoDB'
		AND (t.table_name LIKE 'idempotency%' OR t.table_name LIKE 'processed%')`, schema)
	if err != nil {
		return append(errs, err)
	}
	for _, flaw := range flaws {
		errs = append(errs, errors.New(flaw))
	}
	return errs
}
