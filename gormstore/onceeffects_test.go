package gormstore_test

import (
	"context"
	"crypto/rand"
	"log"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemtest"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// account is what the money of the rows below is taken from. Each model takes it in another way.
type account struct {
	ID      uint
	Balance int
}

func debit(tx *gorm.DB) error {
	return tx.Model(&account{ID: 1}).Update("balance", gorm.Expr("balance - ?", 5)).Error
}

type (
	paidAfter struct {
		gormstore.Once
		ID        uint
		Reference string `gorm:"not null;uniqueIndex"`
	}
	paidBefore struct {
		gormstore.Once
		ID        string `gorm:"primaryKey"`
		Reference string `gorm:"not null;uniqueIndex"`
	}
	paidSaved struct {
		gormstore.Once
		ID        uint
		Reference string `gorm:"not null;uniqueIndex"`
	}
	paidFor struct { // associations of every kind
		gormstore.Once
		ID        uint
		Reference string `gorm:"not null;uniqueIndex"`
		PayerID   uint
		Payer     *payer
		Receipt   *receipt
		Items     []*item
		Labels    []label `gorm:"many2many:paid_labels"`
	}
	paidByValue struct {
		gormstore.Once
		ID        uint
		Reference string `gorm:"not null;uniqueIndex"`
		Number    number
	}
	paidByDefault struct {
		gormstore.Once
		ID        uint
		Reference string `gorm:"not null;uniqueIndex"`
		Left      int    `gorm:"default:take_five()"`
	}

	payer struct {
		ID   uint
		Name string
	}
	receipt struct {
		ID, PaidForID uint
		Name          string
	}
	item struct {
		ID, PaidForID uint
		Name          string
	}
	label struct {
		ID   uint
		Name string
	}
	number int

	// The lines of these are set by a hook, by a callback of the app, and by GORM.
	lineByHook struct {
		gormstore.Once
		ID   uint
		Line int `gorm:"not null;uniqueIndex:,composite:operation"`
	}
	lineByCallback struct {
		gormstore.Once
		ID   uint
		Line int `gorm:"not null;uniqueIndex:,composite:operation"`
	}
	lineByDefault struct {
		gormstore.Once
		ID   uint
		Line int `gorm:"not null;default:7;uniqueIndex:,composite:operation"`
	}
)

func (l *lineByHook) BeforeCreate(*gorm.DB) error {
	l.Line = 7
	return nil
}

type calledKey struct{} // of a context; counts what AfterCreate does outside of the database, which cannot be undone

func (p *paidAfter) AfterCreate(tx *gorm.DB) error {
	*tx.Statement.Context.Value(calledKey{}).(*int)++
	return debit(tx)
}

func (p *paidBefore) BeforeCreate(tx *gorm.DB) error {
	p.ID = rand.Text()
	return debit(tx)
}

func (*paidSaved) BeforeSave(tx *gorm.DB) error { return debit(tx) }

// AfterCreate of an association takes it too.
func (*payer) AfterCreate(tx *gorm.DB) error { return debit(tx) }

func (number) GormDataType() string { return "int" }

func (number) GormValue(context.Context, *gorm.DB) clause.Expr {
	return clause.Expr{SQL: "take_five()"}
}

// bookedRow is what CreateOnce has said of a row.
type bookedRow struct {
	row     any
	created bool
	err     error
}

// booked is one of the models above.
type booked struct {
	name   string
	newRow func(reference string) any
	book   func(tx *gorm.DB, row any) (created bool, err error)
}

var bookedModels = []booked{
	{"after", func(r string) any { return &paidAfter{Reference: r} },
		func(tx *gorm.DB, row any) (bool, error) { return gormstore.CreateOnce(tx, row.(*paidAfter)) }},
	{"before", func(r string) any { return &paidBefore{Reference: r} },
		func(tx *gorm.DB, row any) (bool, error) { return gormstore.CreateOnce(tx, row.(*paidBefore)) }},
	{"saved", func(r string) any { return &paidSaved{Reference: r} },
		func(tx *gorm.DB, row any) (bool, error) { return gormstore.CreateOnce(tx, row.(*paidSaved)) }},
	{"associations", func(r string) any {
		return &paidFor{Reference: r, Payer: &payer{}, Receipt: &receipt{}, Items: []*item{{}, {}}, Labels: []label{{}}}
	}, func(tx *gorm.DB, row any) (bool, error) { return gormstore.CreateOnce(tx, row.(*paidFor)) }},
	{"value", func(r string) any { return &paidByValue{Reference: r} },
		func(tx *gorm.DB, row any) (bool, error) { return gormstore.CreateOnce(tx, row.(*paidByValue)) }},
	{"default", func(r string) any { return &paidByDefault{Reference: r} },
		func(tx *gorm.DB, row any) (bool, error) { return gormstore.CreateOnce(tx, row.(*paidByDefault)) }},
	{"callback", func(r string) any { return &charge{Reference: r} },
		func(tx *gorm.DB, row any) (bool, error) { return gormstore.CreateOnce(tx, row.(*charge)) }},
}

// A record is lost, and its command comes again. The row is there, so nothing else may happen, whatever GORM and the
// database do with a Create beside its INSERT. The same where another operation has booked the row.
//
// CONTRACT D-1, D-3
func TestNothingHappensBesideARowThatIsThere(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		if db.Name() == "postgres" {
			execute(t, db, "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint)",
				"CREATE FUNCTION take_five() RETURNS bigint LANGUAGE sql AS "+
					"'UPDATE accounts SET balance = balance - 5 WHERE id = 1 RETURNING balance'")
		}
		store := newStore(t, db)
		require.NoError(t, db.AutoMigrate(&account{}, &paidFor{}, &payer{}, &receipt{}, &item{}, &label{}))
		for _, model := range bookedModels {
			t.Run(model.name, func(t *testing.T) {
				if db.Name() == "sqlite" && (model.name == "value" || model.name == "default") {
					t.Skip("SQLite has no functions of the app's own that write")
				}
				if model.name == "callback" {
					require.NoError(t, db.Callback().Create().After("gorm:create").Register("app:take", func(db *gorm.DB) {
						if db.Error == nil && db.Statement.Table == "charges" {
							_ = db.AddError(debit(db.Session(&gorm.Session{NewDB: true})))
						}
					}))
				}
				require.NoError(t, db.AutoMigrate(model.newRow("")))
				model.repeat(t, db, newModule(t, store, core.Policy{Recovery: core.Rollback}), gormstore.Tx)
				model.repeat(t, db, newModule(t, store, core.Policy{Recovery: core.Resume}), db.WithContext)
				model.repeat(t, db, newModule(t, store, core.Policy{Recovery: core.Park}), db.WithContext)
				model.repeat(t, db, newModule(t, store, core.Policy{Recovery: core.Park}),
					db.Session(&gorm.Session{SkipDefaultTransaction: true}).WithContext)
			})
		}
		for _, table := range []string{"payers", "receipts", "items", "labels", "paid_labels"} {
			rows := query[int](t, db, "SELECT count(*) FROM "+table)
			if table == "items" {
				rows /= 2
			}
			require.Equal(t, 4, rows, table)
		}
	})
}

// repeat books a row, and again after its record was lost.
func (m booked) repeat(t *testing.T, db *gorm.DB, module *core.Module, handle func(context.Context) *gorm.DB) {
	t.Helper()
	execute(t, db, "DELETE FROM accounts", "INSERT INTO accounts (id, balance) VALUES (1, 100)")
	called := 0
	c := cashier{t: t, db: db, module: module, handle: func(ctx context.Context) *gorm.DB {
		return handle(ctx).WithContext(context.WithValue(ctx, calledKey{}, &called))
	}}
	book := func(key, reference string) (b bookedRow) {
		c.run(alice, key, "", func(tx *gorm.DB) {
			b.row = m.newRow(reference)
			if recovery, _ := core.RecoveryOf(tx.Statement.Context); recovery != core.Resume {
				b.created, b.err = m.book(tx, b.row)
				return
			}
			_, err := gormstore.Step(tx.Statement.Context, rand.Text(), func(tx *gorm.DB) (int, error) {
				b.created, b.err = m.book(tx, b.row)
				return 0, nil
			})
			require.NoError(t, err)
		})
		return b
	}
	balance := func() int { return query[int](t, db, "SELECT balance FROM accounts") }

	key := rand.Text()
	first := book(key, "r-"+key)
	require.NoError(t, first.err)
	require.True(t, first.created)
	require.Equal(t, 95, balance())
	after := called

	for range 2 {
		again := book(key, "another")
		require.NoError(t, again.err)
		require.False(t, again.created)
		require.Equal(t, 95, balance(), "taken once")
		there := m.newRow("")
		reflect.ValueOf(there).Elem().SetZero()
		require.NoError(t, db.Where("reference = ?", "r-"+key).Take(there).Error)
		require.Equal(t, there, again.row)
	}

	other := book(rand.Text(), "r-"+key)
	require.ErrorIs(t, other.err, gormstore.ErrOtherOperation)
	require.False(t, other.created)
	require.Equal(t, 95, balance())
	require.Equal(t, after, called, "AfterCreate was not called again")
	given := m.newRow("r-" + key)
	reflect.ValueOf(given).Elem().FieldByName("Once").Set(reflect.ValueOf(other.row).Elem().FieldByName("Once"))
	require.Equal(t, given, other.row, "the row, and what is associated with it, are as they were")
}

// An app that replaces a callback of GORM's may do anything there.
//
// CONTRACT D-1
func TestAReplacedCallbackOfGORM(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		store := newStore(t, db)
		require.NoError(t, db.AutoMigrate(&account{}, &charge{}))
		create := db.Callback().Create()
		before := create.Get("gorm:before_create")
		require.NoError(t, create.Replace("gorm:before_create", func(db *gorm.DB) {
			if before(db); db.Error == nil && db.Statement.Table == "charges" {
				_ = db.AddError(debit(db.Session(&gorm.Session{NewDB: true})))
			}
		}))
		replaced := booked{"replaced", func(r string) any { return &charge{Reference: r} },
			func(tx *gorm.DB, row any) (bool, error) { return gormstore.CreateOnce(tx, row.(*charge)) }}
		replaced.repeat(t, db, newModule(t, store, core.Policy{Recovery: core.Rollback}), gormstore.Tx)
	})
}

// A trigger takes the money before the row is inserted, and so also where it is not. No model shows it, but the audit sees it.
//
// CONTRACT D-1, D-2
func TestTriggersThatRunBeforeARow(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		store := newStore(t, db)
		require.NoError(t, db.AutoMigrate(&account{}, &charge{}))
		const take = "BEGIN UPDATE accounts SET balance = balance - 5; "
		if db.Name() == "postgres" {
			execute(t, db, "CREATE FUNCTION take() RETURNS trigger LANGUAGE plpgsql AS '"+take+"RETURN NEW; END'",
				"CREATE TRIGGER early BEFORE INSERT OR UPDATE ON charges FOR EACH ROW EXECUTE FUNCTION take()")
		} else {
			execute(t, db, "CREATE TRIGGER taken_after_all INSERT ON charges "+take+"END") // its name is not its time
		}
		require.NoError(t, gormstore.Audit(t.Context(), db, &charge{}))
		early := booked{"trigger", func(r string) any { return &charge{Reference: r} },
			func(tx *gorm.DB, row any) (bool, error) { return gormstore.CreateOnce(tx, row.(*charge)) }}
		early.repeat(t, db, newModule(t, store, core.Policy{Recovery: core.Rollback}), gormstore.Tx)
		early.repeat(t, db, newModule(t, store, core.Policy{Recovery: core.Park}), db.WithContext)
	})
}

// What tells the rows of an operation apart may be set while the row is created. The row is found by it, too.
//
// CONTRACT D-1, D-3
func TestARowIsFoundByWhatItsCreationHasSet(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		require.NoError(t, db.AutoMigrate(&lineByHook{}, &lineByCallback{}, &lineByDefault{}))
		require.NoError(t, db.Callback().Create().Before("gorm:create").Register("app:line", func(db *gorm.DB) {
			if db.Statement.Table == "line_by_callbacks" {
				db.Statement.SetColumn("Line", 7)
			}
		}))
		c := cashier{t, db, newModule(t, newStore(t, db), core.Policy{Recovery: core.Rollback}), gormstore.Tx}
		var hook, again lineByHook
		for _, want := range []bool{true, false} {
			c.run(alice, "key", "", func(tx *gorm.DB) {
				hook, again = again, lineByHook{}
				require.Equal(t, want, try(gormstore.CreateOnce(tx, &again)).ok(t))
				require.Equal(t, want, try(gormstore.CreateOnce(tx, &lineByCallback{})).ok(t))
				require.Equal(t, want, try(gormstore.CreateOnce(tx, &lineByDefault{})).ok(t))
			})
		}
		require.Equal(t, 7, hook.Line)
		require.Equal(t, hook, again)
	})
}

// What a hook does outside of the database cannot be undone, and the audit says so.
//
// CONTRACT D-1, D-2
func TestAuditWarnsOfHooks(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		newStore(t, db)
		require.NoError(t, db.AutoMigrate(&paidAfter{}, &paidBefore{}))
		var said strings.Builder
		logged := db.Session(&gorm.Session{Logger: logger.New(log.New(&said, "", 0), logger.Config{LogLevel: logger.Warn})})
		require.NoError(t, gormstore.Audit(t.Context(), logged, &paidAfter{}))
		require.Empty(t, said.String(), "its hook is not called")
		require.NoError(t, gormstore.Audit(t.Context(), logged, &paidBefore{}))
		require.Contains(t, said.String(), "paidBefore has BeforeCreate or BeforeSave")
	})
}

// A model without any of it is created by one statement.
//
// CONTRACT D-1
func TestAPlainRowIsOneStatement(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	read := pgtest.Statements(t, url)
	db := openPostgres(t, url, 4)
	newStore(t, db) // installs the write guard
	require.NoError(t, db.AutoMigrate(&account{}, &charge{}, &paidAfter{}))
	for _, statements := range []struct {
		name string
		book func(tx *gorm.DB) (bool, error)
		want []string
	}{
		{"plain", func(tx *gorm.DB) (bool, error) { return gormstore.CreateOnce(tx, &charge{}) }, []string{"INSERT"}},
		{"twice", func(tx *gorm.DB) (bool, error) { return gormstore.CreateOnce(tx, &charge{}) }, []string{"INSERT", "SELECT"}},
		{"with a hook", func(tx *gorm.DB) (bool, error) { return gormstore.CreateOnce(tx, &paidAfter{}) },
			[]string{"SAVEPOINT", "INSERT", "UPDATE", "RELEASE"}},
		{"with a hook, twice", func(tx *gorm.DB) (bool, error) { return gormstore.CreateOnce(tx, &paidAfter{}) },
			[]string{"SAVEPOINT", "INSERT", "ROLLBACK TO", "RELEASE", "SELECT"}},
	} {
		require.NoError(t, db.Transaction(func(tx *gorm.DB) error {
			ctx := idemtest.Context(t.Context(), idemtest.Config{})
			tx = tx.WithContext(context.WithValue(ctx, calledKey{}, new(int)))
			read()
			_, err := statements.book(tx)
			require.NoError(t, err)
			requireStatements(t, read(), statements.want...)
			return nil
		}), statements.name)
	}
}
