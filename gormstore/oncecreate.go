package gormstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/auth19/idem/gormstore/internal/sqltext"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// What belongs to a Create beside its INSERT: hooks, associations, callbacks of plugins, functions of the database. GORM
// goes on with all of it where ON CONFLICT DO NOTHING has inserted no row. So such a Create is undone as a whole then (D-1).

// insertOnce creates row, unless a UNIQUE constraint is against it. Then nothing has happened in the database, row and what
// is associated with it are as they were, and key is what the row would have had in the operation's UNIQUE index: hooks,
// plugins and defaults set columns, too.
func insertOnce(tx *gorm.DB, row any) (created bool, key map[string]any, err error) {
	var isDuplicate func(error) bool
	if d, err := txn.DialectOf(tx.Name()); err == nil {
		isDuplicate = d.IsDuplicate
	}
	create := func(tx *gorm.DB) error {
		tx = tx.Set(onceRow, row)
		if isDuplicate == nil {
			tx = tx.Clauses(clause.OnConflict{DoNothing: true})
		}
		result := tx.Create(row)
		created = result.RowsAffected == 1 && result.Error == nil
		if isDuplicate != nil && (errors.Is(result.Error, gorm.ErrDuplicatedKey) || isDuplicate(result.Error)) {
			return nil
		}
		return result.Error
	}
	tx = tx.Model(row)
	if err := tx.Statement.Parse(row); err != nil {
		return false, nil, err
	}
	before := keep(tx.Statement.Context, tx.Statement.Schema, reflect.ValueOf(row).Elem(), nil)
	if len(before) == 1 && !hasEffects(tx, tx.Statement.Schema) {
		err = create(tx)
	} else {
		err = undoable(tx, &created, create)
	}
	if err != nil || created {
		return created && err == nil, nil, err
	}
	key, err = onceKey(tx, row)
	for _, k := range before {
		k.at.Set(k.copy)
	}
	return false, key, err
}

// undoable runs create, and undoes what it has done if nothing was created.
func undoable(tx *gorm.DB, created *bool, create func(tx *gorm.DB) error) error {
	if _, inside := tx.Statement.ConnPool.(gorm.TxCommitter); inside {
		own := tx.Session(&gorm.Session{NewDB: true})
		savepoint := fmt.Sprintf("idem_once_%p", created) // a hook of the row may create another one
		if err := own.SavePoint(savepoint).Error; err != nil {
			return err
		}
		if err := create(tx); err != nil {
			return err // as without a savepoint, what to do with the rest of the transaction is the caller's decision
		}
		if !*created {
			if err := own.RollbackTo(savepoint).Error; err != nil {
				return err
			}
		}
		return own.Exec("RELEASE SAVEPOINT " + savepoint).Error
	}
	if txn.RefuseOutside(tx); tx.Error != nil { // before it takes a connection
		return tx.Error
	}
	if resolve := tx.Callback().Create().Get(resolver); resolve != nil {
		resolve(tx) // begin on the connection that the Create will choose
	}
	err := tx.Transaction(func(tx *gorm.DB) error {
		if err := create(tx); err != nil || *created {
			return err
		}
		return errNotCreated
	})
	if errors.Is(err, errNotCreated) {
		return nil
	}
	return err
}

var errNotCreated = errors.New("idem: gormstore.CreateOnce: the row was created before")

// onceRow is the setting of a Create by CreateOnce; its value is the row. The Creates of associations have it, too.
const onceRow = "idem:once"

// skipUncreated lets a Create that has inserted no row end at once, without AfterCreate: a mail could not be undone.
func skipUncreated(db *gorm.DB) {
	if row, ok := db.Get(onceRow); ok && row == db.Statement.Dest && db.RowsAffected == 0 {
		db.Statement.SkipHooks = true
		db.Statement.Omits = append(db.Statement.Omits, clause.Associations)
	}
}

// resolver is the callback of the plugin dbresolver. It chooses a connection.
const resolver = "gorm:db_resolver"

// ownCallbacks are the callbacks of Create that GORM and the library have. They have no effects of their own.
var ownCallbacks = []string{
	"gorm:begin_transaction", "gorm:before_create", "gorm:save_before_associations", "gorm:create",
	"gorm:save_after_associations", "gorm:after_create", "gorm:commit_or_rollback_transaction", resolver,
	guardName, guardName + "_once", guardName + "_created",
}

// hasEffects reports whether a Create may do more in the database than its INSERT, whose values are without effects.
func hasEffects(db *gorm.DB, s *schema.Schema) bool {
	if s.BeforeCreate || s.BeforeSave || s.AfterCreate || s.AfterSave || len(s.CreateClauses) > 0 {
		return true
	}
	for _, field := range s.Fields {
		if reflect.PointerTo(field.IndirectFieldType).Implements(reflect.TypeFor[gorm.Valuer]()) { // it writes SQL
			return true
		}
	}
	for _, field := range s.FieldsWithDefaultDBValue {
		if field.DefaultValue != "" && sqltext.MayWrite(sqltext.Unknown, "SELECT "+field.DefaultValue) != "" {
			return true
		}
	}
	if guard, ok := db.Plugins[guardName].(*writeGuard); ok {
		if _, early := guard.early.Load(db.Statement.Table); early {
			return true
		}
	}
	return foreignCallbacks(db)
}

// foreignCallbacks reports whether plugins, or the app, have registered callbacks of Create, or have replaced GORM's. GORM
// does not show them, so its fields are read. If another version of GORM has none of these names, they count as foreign.
func foreignCallbacks(db *gorm.DB) bool {
	callbacks := reflect.ValueOf(db.Callback().Create()).Elem().FieldByName("callbacks")
	if callbacks.Kind() != reflect.Slice {
		return true
	}
	own := slices.Clone(ownCallbacks)
	for i := range callbacks.Len() {
		name := reflect.Indirect(callbacks.Index(i)).FieldByName("name")
		at := slices.Index(own, name.String())
		if at < 0 {
			return true
		}
		own = slices.Delete(own, at, at+1) // one that was replaced is there twice
	}
	return false
}

// kept is a copy of a struct that Create may change.
type rowCopy struct{ at, copy reflect.Value }

// keep copies a row and what is associated with it: GORM sets ids and times there.
func keep(ctx context.Context, s *schema.Schema, at reflect.Value, all []rowCopy) []rowCopy {
	known := func(k rowCopy) bool { return k.at.Type() == at.Type() && k.at.Addr().Pointer() == at.Addr().Pointer() }
	if !at.IsValid() || slices.ContainsFunc(all, known) {
		return all
	}
	whole := reflect.New(at.Type()).Elem()
	whole.Set(at)
	all = append(all, rowCopy{at, whole})
	relations := &s.Relationships
	for _, relation := range slices.Concat(relations.BelongsTo, relations.HasOne, relations.HasMany, relations.Many2Many) {
		if _, zero := relation.Field.ValueOf(ctx, at); zero {
			continue
		}
		value := reflect.Indirect(relation.Field.ReflectValueOf(ctx, at))
		if value.Kind() != reflect.Slice {
			all = keep(ctx, relation.FieldSchema, value, all)
			continue
		}
		for i := range value.Len() {
			all = keep(ctx, relation.FieldSchema, reflect.Indirect(value.Index(i)), all)
		}
	}
	return all
}
