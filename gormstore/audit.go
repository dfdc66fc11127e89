package gormstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/auth19/idem/gormstore/internal/txn"
)

// Audit checks the database when the app starts (D-2). models are the app's money rows. If a model has a table in a schema
// for each tenant, give it once for each of them:
//
//	db.Model(&Payment{}).Table("tenant_a.payments")
//
// It looks at the live schema and server, and returns one error that names everything that is wrong: the write guard is not
// installed on db; a table of the library is missing; the server or a table may lose what was confirmed (F-2, F-5);
// the role lacks a right; a money table does not exist, or has no valid, non-partial, non-deferrable UNIQUE index over
// operation_id, by the name that GORM gives it, and NOT NULL columns whose values are the same in every attempt: an index
// with a time, a date, a default, a sequence or a generated column does not count. A default of operation_id counts as one
// unless the model embeds [Once]. It tells [CreateOnce] which tables have triggers that run before a row is inserted, and
// writes a warning to db's Logger for a model whose hooks CreateOnce cannot undo outside of the database.
// Where nothing is wrong it runs the self-test of the store on db, as [Store.Validate] does (F-8).
// inbox.Inbox.Validate and journal.Journal.Validate check what consumers and clients need in addition.
func Audit(ctx context.Context, db *gorm.DB, models ...any) error {
	d, err := txn.DialectOf(db.Dialector.Name())
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
			"db.Use(gormstore.WriteGuard())"))
	}
	texts, err := txn.StatementsOf(db, d)
	if err != nil {
		return fmt.Errorf("idem: gormstore.Audit: %w", err)
	}
	look := txn.Inspector{Q: pool, Statements: texts}
	errs = append(errs, look.Server(ctx, storeRights)...)
	for _, model := range models {
		stmt := &gorm.Statement{DB: db}
		if of, ok := model.(*gorm.DB); ok {
			model, stmt.Table, stmt.TableExpr = of.Statement.Model, of.Statement.Table, of.Statement.TableExpr
		}
		if err := stmt.Parse(model); err != nil {
			errs = append(errs, fmt.Errorf("%T is no GORM model: %w", model, err))
			continue
		}
		name, table := stmt.Table, d.Table(stmt.Table, stmt.Quote(stmt.Table))
		if stmt.TableExpr != nil {
			name = d.Table(stmt.Table, stmt.TableExpr.SQL)
			table = name
		}
		if err := findEffects(ctx, db, look, table, stmt); err != nil {
			errs = append(errs, err)
		}
		if err := secondLine(ctx, look, table, stmt.Schema); err != nil {
			errs = append(errs, fmt.Errorf("money table %s (%T): %w", name, model, err))
		}
	}
	if test := txn.SelfTestOf(db); test != nil && errs == nil { // so that the first claim need not run it
		errs = append(errs, test(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("idem: gormstore.Audit:\n%w", err)
	}
	return nil
}

// AuditPgx checks when the app starts that a pool of pgx has [PgxWriteGuard], for all that is sent over it: as its tracer,
// or in one within it, as in those of pgx's package multitracer (D-2). Call it for each pool that handlers may write over. A
// guard that a function keeps is not seen, nor a tracer that BeforeConnect sets. Without AuditPgx the first statement over
// [PgxTx] looks at the store's own connection, and GORM's logger gets a warning.
func AuditPgx(pool *pgxpool.Pool) error {
	if pool == nil {
		return errors.New("idem: gormstore.AuditPgx: there is no pool")
	}
	if err := txn.AuditPgxGuard(pool.Config().ConnConfig.Tracer); err != nil {
		return fmt.Errorf("idem: gormstore.AuditPgx: the pool: %w", err)
	}
	return nil
}

// findEffects tells [CreateOnce] of triggers, which no model shows. It writes to db's Logger what CreateOnce cannot undo.
func findEffects(ctx context.Context, db *gorm.DB, look txn.Inspector, table string, model *gorm.Statement) error {
	if model.Schema.BeforeCreate || model.Schema.BeforeSave {
		db.Logger.Warn(ctx, "idem: gormstore.Audit: "+model.Schema.Name+" has BeforeCreate or BeforeSave. Where "+
			"gormstore.CreateOnce finds the row, what they did outside of the database (a mail, a call) is not undone")
	}
	triggers, err := look.Texts(ctx, look.Statements.Dialect.EarlyTriggers, table)
	if guard, ok := db.Plugins[guardName].(*writeGuard); ok && len(triggers) > 0 {
		guard.early.Store(model.Table, true)
	}
	return err
}

// secondLine checks the columns of Once, and the UNIQUE index, of the money table of a model.
func secondLine(ctx context.Context, look txn.Inspector, table string, model *schema.Schema) error {
	columns, err := look.Columns(ctx, table)
	if err != nil {
		return err
	}
	if len(columns) == 0 {
		return errors.New("there is no such table")
	}
	operation, command := onceColumns(model)
	for _, column := range []string{operation, command} {
		if slices.Contains(model.DBNames, column) && !slices.Contains(columns, column) {
			return fmt.Errorf("the column %s is missing in the database. AutoMigrate cannot add it to a table that has "+
				"rows: %s", column, backfill)
		}
	}
	indexes, err := look.Texts(ctx, look.Statements.Dialect.UniqueIndexes, table)
	if err != nil {
		return err
	}
	var flaws []string
	for _, text := range indexes {
		index := readIndex(text, model)
		if !slices.Contains(index.columns, operation) {
			continue
		}
		if index.flaw == "" {
			return nil
		}
		flaws = append(flaws, "the UNIQUE index over "+strings.Join(index.columns, ",")+" "+index.flaw)
	}
	if flaws == nil {
		return fmt.Errorf("it has no UNIQUE index over NOT NULL columns with %s among them; embed gormstore.Once "+
			"and migrate the table, or CREATE UNIQUE INDEX; and create its rows with gormstore.CreateOnce", operation)
	}
	return errors.New(strings.Join(flaws, "; "))
}

// uniqueIndex is a UNIQUE index of a money table.
type uniqueIndex struct {
	columns []string
	flaw    string // why it does not keep a second attempt from booking again; "" if it does
}

// readIndex reads a text of UniqueIndexes.
func readIndex(text string, model *schema.Schema) (index uniqueIndex) {
	kind, columns, _ := strings.Cut(text, ":")
	if kind != "" {
		index.flaw = "is " + kind
	}
	operation, _ := onceColumns(model)
	for column := range strings.SplitSeq(columns, ",") {
		column, differs, _ := strings.Cut(column, "!")
		column, nullable := strings.CutSuffix(column, "?")
		index.columns = append(index.columns, column)
		if differs == "" {
			differs = setByGORM(model.FieldsByDBName[column])
		}
		switch {
		case index.flaw != "":
		case nullable:
			index.flaw = "has a column that may be NULL, and NULLs are never equal"
		case column == operation && differs == hasDefault && embedsOnce(model):
			// The release before fills it so, until its last instance is gone. This one's rows have their operation's id.
		case column == operation && differs != "":
			index.flaw = "protects nothing: " + operation + " " + differs + ", so that every attempt gets another one; embed " +
				"gormstore.Once, create the rows with gormstore.CreateOnce, and drop the default"
		case differs != "":
			index.flaw = "protects nothing: " + column + " " + differs + ", so that a second attempt may have another value there; " +
				"leave it out of the index. A partitioned table cannot: docs/database.md says how to build one"
		}
	}
	return index
}

// hasDefault is a reason in UniqueIndexes.
const hasDefault = "has a default"

// setByGORM tells why the value of a model's field may be another one in each attempt; "" if it does not.
func setByGORM(field *schema.Field) string {
	switch {
	case field == nil:
		return ""
	case field.AutoIncrement:
		return "comes from a sequence"
	case field.AutoCreateTime > 0, field.AutoUpdateTime > 0, field.DataType == schema.Time:
		return "is a time"
	}
	return ""
}
