package gormstore

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Once is the second line of defence (D-1). Embed it in the model of every money row. It has the operation that made the
// row, NOT NULL and UNIQUE. So a row is booked once, even if the operation's record was lost or has expired.
//
//	type Payment struct {
//		gormstore.Once `json:"-"`
//		ID     uint
//		Amount int64
//	}
//
// If one operation makes several rows, add the columns that tell them apart to the index:
//
//	Line int `gorm:"not null;uniqueIndex:,composite:operation"`
//
// Create such rows with [CreateOnce]. The write guard refuses to create a row without an operation id. It does not see
// maps and plain SQL.
//
// AutoMigrate adds the columns to an empty table. It fails if the table has rows, because the columns are NOT NULL:
// docs/database.md of this module has the statements for such a table.
type Once struct {
	// OperationID is core.Origin in hex: the operation, or a message of an inbox. The operation's is different for each
	// principal, and the key cannot be read from it.
	OperationID string `gorm:"size:64;not null;uniqueIndex:,composite:operation"`
	// CommandHash is core.CommandHashOf in hex, with its version: a key may come again with another command (D-3).
	CommandHash string `gorm:"size:70;not null"`
}

func (o *Once) once() *Once { return o }

// refuseWithoutOperation refuses to create a row without an operation id: the table could have only one such row. It runs
// after the hooks of the app. It is not a hook of Once, because if the app embeds a hook of the same name, too, GORM
// would call neither.
func refuseWithoutOperation(db *gorm.DB) {
	if db.Error != nil || db.Statement.Schema == nil {
		return
	}
	for _, field := range db.Statement.Schema.Fields {
		if isOfOnce(field) {
			refuseZero(db, field)
		}
	}
}

// isOfOnce reports whether a field is the OperationID of a [Once].
func isOfOnce(field *schema.Field) bool {
	return field.Name == "OperationID" && field.OwnerSchema != nil && field.OwnerSchema.ModelType == reflect.TypeFor[Once]()
}

// embedsOnce reports whether the rows of a model have the operation id of a [Once].
func embedsOnce(model *schema.Schema) bool { return slices.ContainsFunc(model.Fields, isOfOnce) }

func refuseZero(db *gorm.DB, field *schema.Field) {
	isZero := func(row reflect.Value) bool {
		row = reflect.Indirect(row)
		if row.Kind() != reflect.Struct { // a map is not checked
			return false
		}
		_, zero := field.ValueOf(db.Statement.Context, row)
		return zero
	}
	rows, found := reflect.Indirect(db.Statement.ReflectValue), false
	switch rows.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range rows.Len() {
			found = found || isZero(rows.Index(i))
		}
	default:
		found = isZero(rows)
	}
	if found {
		_ = db.AddError(errors.New("idem: gormstore.Once: this row has no operation id: create it with " +
			"gormstore.CreateOnce(tx, &row), not with tx.Create(&row), or set OperationID where there is no attempt"))
		db.Logger.Error(db.Statement.Context, "%v", db.Error) // GORM logs only what the database has refused
	}
}

// ErrOtherOperation means that a UNIQUE constraint found a row of another operation, or of another command with the same
// operation id. The second line of defence has stopped a second booking: answer 409 (D-3). The row is not returned,
// because it may be another principal's.
var ErrOtherOperation = errors.New("idem: gormstore: another operation has created this row already")

// CreateOnce creates a money row for the operation of tx's context, or finds the row that the operation has created
// before. created says which of the two, and row holds the row in both cases (D-1, D-3). tx is gormstore.Tx(ctx) in a
// Rollback handler, the step's tx in a [Step], and db.WithContext(ctx) in a Park handler. In the handler of an inbox it is
// the handler's tx, and the row belongs to the message (see core.Origin) and its payload, also where the message has joined
// an attempt. With the plugin dbresolver the row is looked for where it was written, never on a replica.
//
// If the row is not created, nothing else happens in the database (D-1): what hooks, associations, callbacks of plugins and
// functions in the INSERT have done is undone, and row and its associations are as they were, or the row is the one that is
// there, without associations. For that the Create is in a savepoint, or in a transaction where there is none. A model
// without any of these is created by one statement. BeforeSave and BeforeCreate are called before it is known, and what they
// do outside of the database (a mail, a call) cannot be undone; AfterCreate and AfterSave are not called then, if db has the
// [WriteGuard]. Of triggers that run before the row is inserted it knows what [Audit] has found.
//
// Errors: ErrOtherOperation; tx's context belongs to no attempt and to no message; any error of the database. After an error
// of the database, PostgreSQL refuses further statements of the transaction, as usual.
func CreateOnce[T any, P interface {
	*T
	once() *Once
}](tx *gorm.DB, row P) (created bool, err error) {
	ctx := tx.Statement.Context
	origin, ok := core.Origin(ctx)
	if !ok {
		return false, errors.New("idem: gormstore.CreateOnce: the context of tx belongs to no attempt and to no message; pass " +
			"gormstore.Tx(ctx) or db.WithContext(ctx) with the context of the handler's request, or the tx of the inbox's handler")
	}
	command, _ := core.CommandHashOf(ctx)
	columns := row.once()
	columns.OperationID = origin.String()
	columns.CommandHash = command.String()

	tx = tx.Session(&gorm.Session{Context: ctx}) // for several statements, each with what tx has: a table, say
	created, where, err := insertOnce(tx, row)
	if created || err != nil {
		return created, explained(tx, row, err)
	}
	var existing T
	there := tx.Set(onSource, true).Unscoped().Where(where) // a row that is soft-deleted counts too
	if d, err := txn.DialectOf(tx.Name()); err == nil {
		there = there.Where(d.TakesWrites) // in Park it may go over another connection than the INSERT
	}
	err = there.Take(&existing).Error
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return false, ErrOtherOperation // another UNIQUE constraint of the table was violated
	case err != nil:
		return false, err
	case P(&existing).once().CommandHash != columns.CommandHash:
		return false, ErrOtherOperation
	}
	*row = existing
	return false, nil
}

// onSource lets the plugin dbresolver send a read where it sends writes, as its clause dbresolver.Write does, which is not
// imported for that: a replica may not have the row yet, and the operation's own row would be taken for another's.
const onSource = "gorm:db_resolver:write"

// onceKey returns the values of row in the UNIQUE index that the operation id is part of.
func onceKey(tx *gorm.DB, row any) (map[string]any, error) {
	// Parse makes a separate schema: ParseIndexes writes into it, and all goroutines share GORM's own.
	own, err := schema.Parse(row, new(sync.Map), tx.NamingStrategy)
	if err != nil {
		return nil, err
	}
	operation, _ := onceColumns(own)
	isOperation := func(o schema.IndexOption) bool { return o.DBName == operation }
	value := reflect.Indirect(reflect.ValueOf(row))
	for _, index := range own.ParseIndexes() {
		if index.Class != "UNIQUE" || !slices.ContainsFunc(index.Fields, isOperation) {
			continue
		}
		key := make(map[string]any, len(index.Fields))
		for _, field := range index.Fields {
			key[field.DBName], _ = field.ValueOf(tx.Statement.Context, value)
		}
		return key, nil
	}
	return nil, fmt.Errorf("idem: gormstore.CreateOnce: %s has no UNIQUE index with its operation id", own.Name)
}

// onceColumns returns the columns of [Once] in a model's table, as the app's GORM names them. A model without such fields is
// of a table that is written in SQL, which has the names of docs/databases-and-mappers.md.
func onceColumns(model *schema.Schema) (operation, command string) {
	named := func(name, otherwise string) string {
		if field := model.FieldsByName[name]; field != nil {
			return field.DBName
		}
		return otherwise
	}
	return named("OperationID", "operation_id"), named("CommandHash", "command_hash")
}

// backfill tells how to add a missing column.
const backfill = "add it as nullable, fill it, then make it NOT NULL and UNIQUE, as docs/database.md says under " +
	"\"A money table that has rows\""

// explained adds to an error of the database that a column of Once is missing in the table.
func explained(tx *gorm.DB, row any, err error) error {
	const undefinedColumn = "42703"
	if err == nil || txn.SQLState(err) != undefinedColumn && !strings.Contains(err.Error(), "has no column named") {
		return err
	}
	stmt := &gorm.Statement{DB: tx}
	if stmt.Parse(row) != nil {
		return err
	}
	operation, command := onceColumns(stmt.Schema)
	for _, column := range []string{operation, command} {
		if strings.Contains(err.Error(), column) {
			return fmt.Errorf("idem: gormstore.CreateOnce: the column %s is missing in the database: %s: %w", column, backfill, err)
		}
	}
	return err
}
