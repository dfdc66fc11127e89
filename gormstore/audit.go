package gormstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"
)

// Audit checks the database when the app starts (D-2). models are the app's money rows. It looks at the live schema and
// server, and returns one error that names everything that is wrong: the write guard is not installed on db; a
// table of the library is missing; the server or a table may lose what was confirmed (F-2, F-5); the role lacks a right;
// a money table does not exist, or has no valid, non-partial, non-deferrable UNIQUE index over NOT NULL columns with
// operation_id among them. [Inbox.Validate] and [Journal.Validate] check what consumers and clients need in addition.
func Audit(ctx context.Context, db *gorm.DB, models ...any) error {
	d, err := dialectOf(db.Dialector.Name())
	if err != nil {
		return fmt.Errorf("idem: gormstore.Audit: %w", err)
	}
	pool, err := db.DB()
	if err != nil {
		return fmt.Errorf("idem: gormstore.Audit: %w", err)
	}
	var errs []error
	if !guardInstalled(db) {
		errs = append(errs, errors.New("the write guard is not installed on this db: use the db that gormstore.New got, or "+
			"db.Use(gormstore.WriteGuard()) (X-6)"))
	}
	texts, err := statementsOf(db, d)
	if err != nil {
		return fmt.Errorf("idem: gormstore.Audit: %w", err)
	}
	look := inspector{q: pool, statements: texts}
	errs = append(errs, look.server(ctx, storeRights)...)
	for _, model := range models {
		stmt := &gorm.Statement{DB: db}
		if err := stmt.Parse(model); err != nil {
			errs = append(errs, fmt.Errorf("%T is no GORM model: %w", model, err))
			continue
		}
		table := stmt.Schema.Table
		if d == postgres {
			table = stmt.Quote(table) // as an identifier in SQL, for to_regclass
		}
		if err := look.secondLine(ctx, table, stmt.Schema.DBNames); err != nil {
			errs = append(errs, fmt.Errorf("money table %s (%T): %w", stmt.Schema.Table, model, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("idem: gormstore.Audit:\n%w", err)
	}
	return nil
}

// uniqueIndexes lists the UNIQUE indexes of a table, each as one text: the flaws, a colon, the columns. A question mark
// follows the name of a column that may be NULL.
var uniqueIndexes = map[*dialect]string{
	postgres: `SELECT concat_ws(' ', CASE WHEN NOT i.indisvalid THEN 'invalid' END,
		CASE WHEN i.indpred IS NOT NULL THEN 'partial' END, CASE WHEN NOT i.indimmediate THEN 'deferrable' END,
		CASE WHEN i.indexprs IS NOT NULL THEN 'over-expressions' END) || ':' ||
	COALESCE((SELECT string_agg(a.attname || CASE WHEN a.attnotnull THEN '' ELSE '?' END, ',')
		FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])), '')
FROM pg_index i WHERE i.indrelid = to_regclass($1) AND i.indisunique`,
	sqlite: `SELECT CASE WHEN l.partial THEN 'partial'
		WHEN EXISTS (SELECT 1 FROM pragma_index_info(l.name) x WHERE x.name IS NULL) THEN 'over-expressions'
		ELSE '' END || ':' ||
	COALESCE((SELECT group_concat(x.name || CASE WHEN t."notnull" THEN '' ELSE '?' END, ',')
		FROM pragma_index_info(l.name) x JOIN pragma_table_info(?1) t ON t.name = x.name), '')
FROM pragma_index_list(?1) l WHERE l."unique"`,
}

// secondLine checks the columns of Once, and the UNIQUE index, of a money table. fields are the columns of its model.
func (i inspector) secondLine(ctx context.Context, table string, fields []string) error {
	columns, err := i.columns(ctx, table)
	if err != nil {
		return err
	}
	if len(columns) == 0 {
		return errors.New("there is no such table")
	}
	for _, column := range onceColumns {
		if slices.Contains(fields, column) && !slices.Contains(columns, column) {
			return fmt.Errorf("the column %s is missing in the database (D-1). AutoMigrate cannot add it to a table that has "+
				"rows: %s", column, backfill)
		}
	}
	indexes, err := i.texts(ctx, uniqueIndexes[i.statements.dialect], table)
	if err != nil {
		return err
	}
	var flaws []string
	for _, index := range indexes {
		flaw, columns, _ := strings.Cut(index, ":")
		if !hasColumn(columns, operationColumn) {
			continue
		}
		switch {
		case flaw != "":
			flaws = append(flaws, "the UNIQUE index over "+columns+" is "+flaw)
		case strings.Contains(columns, "?"):
			flaws = append(flaws, "the UNIQUE index over "+strings.ReplaceAll(columns, "?", "")+" has a column that may be "+
				"NULL, and NULLs are never equal")
		default:
			return nil
		}
	}
	if flaws == nil {
		return errors.New("it has no UNIQUE index over NOT NULL columns with operation_id among them; embed gormstore.Once, " +
			"and create its rows with gormstore.CreateOnce (D-1)")
	}
	return errors.New(strings.Join(flaws, "; "))
}

func hasColumn(list, name string) bool {
	for column := range strings.SplitSeq(list, ",") {
		if strings.TrimSuffix(column, "?") == name {
			return true
		}
	}
	return false
}
