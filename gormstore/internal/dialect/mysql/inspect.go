package mysql

import (
	"context"
	"errors"
	"fmt"

	"github.com/auth19/idem/gormstore/internal/dialect"
)

const tableColumns = `SELECT CONCAT(c.table_name, '.', c.column_name) FROM information_schema.columns c
WHERE c.table_schema = TRIM(BOTH '` + "`" + `' FROM ?) AND FIND_IN_SET(c.table_name, ?)`

const columns = `SELECT c.column_name FROM information_schema.columns c
WHERE c.table_schema = DATABASE() AND c.table_name = ?`

// uniqueIndexes: see dialect.Dialect. Each table of information_schema names the schema: otherwise a server opens the tables
// of all others.
const uniqueIndexes = `SELECT CONCAT(IF(MAX(t.engine) = 'InnoDB', '',
		CONCAT('of a table whose rows stay after ROLLBACK (ALTER TABLE ', MAX(t.table_name), ' ENGINE = InnoDB)')), ':',
	GROUP_CONCAT(CONCAT(s.column_name, IF(c.is_nullable = 'YES', '?', ''),
		CASE WHEN c.extra LIKE '%GENERATED%' THEN '!is generated'
			WHEN c.extra LIKE '%auto_increment%' THEN '!comes from a sequence'
			WHEN c.column_default IS NOT NULL AND c.column_default <> 'NULL' THEN '!has a default'
			WHEN c.data_type IN ('date', 'datetime', 'timestamp', 'time', 'year') THEN '!is a time' ELSE '' END)
		ORDER BY s.seq_in_index SEPARATOR ','))
FROM information_schema.statistics s
	JOIN information_schema.columns c
	ON c.table_schema = DATABASE() AND c.table_name = s.table_name AND c.column_name = s.column_name
	JOIN information_schema.tables t ON t.table_schema = DATABASE() AND t.table_name = s.table_name
WHERE s.table_schema = DATABASE() AND s.table_name = ? AND s.non_unique = 0 GROUP BY s.index_name`

const earlyTriggers = `SELECT t.trigger_name FROM information_schema.triggers t WHERE t.event_object_schema = DATABASE()
	AND t.event_object_table = ? AND t.event_manipulation = 'INSERT' AND t.action_timing = 'BEFORE'`

// inspect checks the settings of the server and of the connection, and the tables.
func inspect(ctx context.Context, q dialect.Querier, schema string, need dialect.Rights, _ bool) []error {
	set, err := readSettings(ctx, q)
	if err != nil {
		return []error{err}
	}
	errs := judge(set)
	if len(need) == 0 {
		return errs
	}
	flaws, err := dialect.Texts(ctx, q, tableFlaws, schema, schema)
	if err != nil {
		return append(errs, err)
	}
	for _, flaw := range flaws {
		errs = append(errs, errors.New(flaw))
	}
	var slots int
	if err := q.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+schema+".idempotency_lock").Scan(&slots); err != nil {
		return append(errs, err)
	}
	if slots != lockSlots {
		errs = append(errs, fmt.Errorf("idempotency_lock has %d rows, and must have %d: keys without one are never free; run the "+
			"migration's INSERT IGNORE INTO idempotency_lock again", slots, lockSlots))
	}
	return errs
}

const lockSlots = 65536 // see :slot of macros.sql

// tableFlaws lists what is wrong with the library's tables in the schema, beyond their columns. Each part names the schema:
// otherwise a server opens the tables of all others.
const tableFlaws = `SELECT IF(t.engine <> 'InnoDB',
	CONCAT('table ', t.table_name, ' has the engine ', t.engine,
		': its rows stay after ROLLBACK; ALTER TABLE ', t.table_name, ' ENGINE = InnoDB'),
	CONCAT('table ', t.table_name,
		' is compressed: an answer that fits a row today may not tomorrow; ALTER TABLE ', t.table_name, ' ROW_FORMAT = DYNAMIC'))
FROM information_schema.tables t
WHERE t.table_schema = TRIM(BOTH '` + "`" + `' FROM ?) AND t.table_type = 'BASE TABLE'
	AND (LEFT(t.table_name, 12) = 'idempotency_' OR LEFT(t.table_name, 17) = 'processed_message')
	AND (t.engine <> 'InnoDB' OR t.create_options LIKE '%COMPRESSED%')
UNION ALL
SELECT CONCAT('column ', c.table_name, '.', c.column_name, ' is a ', c.column_type,
	': two keys that a collation takes for one would be one; restore the type that the migration gives it')
FROM information_schema.columns c
WHERE c.table_schema = TRIM(BOTH '` + "`" + `' FROM ?) AND c.collation_name IS NOT NULL
	AND (LEFT(c.table_name, 12) = 'idempotency_' OR LEFT(c.table_name, 17) = 'processed_message')
	AND c.table_name <> 'idempotency_migration'`
