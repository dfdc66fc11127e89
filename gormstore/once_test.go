package gormstore_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// charge is a money row, of which there is one per operation and one per reference.
type charge struct {
	gormstore.Once
	ID        uint
	Reference string `gorm:"not null;uniqueIndex"`
	Amount    int64
	DeletedAt gorm.DeletedAt
}

// posting is a money row of which an operation makes several.
type posting struct {
	gormstore.Once
	ID   uint
	Line int `gorm:"not null;uniqueIndex:,composite:operation"`
}

var (
	alice = core.Principal{Issuer: "https://issuer.example", Subject: "alice"}
	bob   = core.Principal{Issuer: "https://issuer.example", Subject: "bob"}
)

// cashier runs handlers as attempts of commands whose records get lost: the second line is all there is.
type cashier struct {
	t      *testing.T
	db     *gorm.DB
	module *core.Module
	handle func(ctx context.Context) *gorm.DB // what the handlers write through
}

// run runs fn as the handler of a command, with what it is to write through.
func (c cashier) run(p core.Principal, key, body string, fn func(tx *gorm.DB)) {
	c.t.Helper()
	execute(c.t, c.db, "DELETE FROM idempotency_record")
	w := serveAs(c.t, c.module, p, key, body, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fn(c.handle(r.Context()))
		w.WriteHeader(http.StatusCreated)
	}))
	require.Equal(c.t, http.StatusCreated, w.Code, w.Body)
}

// base is a part of an app's models, with a hook that GORM calls.
type base struct {
	ID string `gorm:"primaryKey"`
}

func (b *base) BeforeCreate(*gorm.DB) error {
	b.ID = "made by the app"
	return nil
}

type invoice struct {
	base
	gormstore.Once
}

// bill sets its operation by itself.
type bill struct {
	gormstore.Once
	ID      string `gorm:"primaryKey"`
	Imports bool   `gorm:"-"`
}

func (b *bill) BeforeCreate(*gorm.DB) error {
	if b.Imports {
		b.OperationID, b.CommandHash = "imported "+b.ID, "-"
	}
	return nil
}

// deposit embeds a pointer, and transfer a field with a name: nothing is promoted.
type (
	deposit struct {
		*gormstore.Once
		ID string `gorm:"primaryKey"`
	}
	transfer struct {
		ID   string         `gorm:"primaryKey"`
		Line gormstore.Once `gorm:"embedded"`
	}
)

// CONTRACT D-1
func TestRowsWithoutOperation(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		_ = newStore(t, db) // installs the write guard
		for _, model := range []any{&invoice{}, &bill{}, &deposit{}, &transfer{}} {
			require.NoError(t, db.Migrator().DropTable(model))
			require.NoError(t, db.AutoMigrate(model))
		}
		filled := gormstore.Once{OperationID: "o-1", CommandHash: "-"}
		for name, rows := range map[string]any{
			"beside a hook": &invoice{}, "with a hook": &bill{ID: "1"}, "nil": &deposit{ID: "1"}, "named": &transfer{ID: "1"},
			"by value": transfer{ID: "1"}, "array": &[1]bill{{ID: "1"}}, "one of two": []*transfer{{ID: "1", Line: filled}, {ID: "2"}},
			"the first of two": []transfer{{ID: "1"}, {ID: "2", Line: filled}},
		} {
			require.ErrorContains(t, db.Create(rows).Error, "create it with gormstore.CreateOnce(tx, &row)", name)
		}
		row := invoice{Once: filled}
		for name, rows := range map[string]any{
			"beside a hook": &row, "with a hook": &bill{ID: "2", Imports: true}, "pointer": &deposit{ID: "1", Once: &filled},
			"named": &[]transfer{{ID: "1", Line: filled}},
		} {
			require.NoError(t, db.Create(rows).Error, name)
		}
		require.Equal(t, "made by the app", row.ID, "two hooks of one name would hide each other")
	})
}

// CONTRACT D-1, D-3
func TestCreateOnce(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		for _, recovery := range []core.Recovery{core.Rollback, core.Park} {
			t.Run(recovery.String(), func(t *testing.T) {
				require.NoError(t, db.Migrator().DropTable(&charge{}, &posting{}))
				require.NoError(t, db.AutoMigrate(&charge{}, &posting{}))
				testCreateOnce(t, db, recovery)
			})
		}
	})
}

func testCreateOnce(t *testing.T, db *gorm.DB, recovery core.Recovery) {
	module := newModule(t, newStore(t, db), core.Policy{Recovery: recovery})
	c := cashier{t: t, db: db, module: module, handle: gormstore.Tx}
	if recovery == core.Park {
		c.handle = db.WithContext
	}
	once := func(tx *gorm.DB, reference string, amount int64) (charge, bool, error) {
		row := charge{Reference: reference, Amount: amount}
		created, err := gormstore.CreateOnce(tx, &row)
		return row, created, err
	}

	require.ErrorContains(t, db.Create(&charge{Reference: "r-0"}).Error, "create it with gormstore.CreateOnce(tx, &row)")
	require.ErrorContains(t, db.Create([]posting{{Line: 1}}).Error, "create it with gormstore.CreateOnce(tx, &row)")
	require.ErrorContains(t, db.Create([]*posting{{Line: 1}}).Error, "create it with gormstore.CreateOnce(tx, &row)")

	made := func(p core.Principal, reference string, want bool) (row charge) {
		t.Helper()
		c.run(p, "k-1", "5.00", func(tx *gorm.DB) {
			var created bool
			var err error
			row, created, err = once(tx, reference, 5)
			require.NoError(t, err)
			require.Equal(t, want, created)
		})
		return row
	}
	first := made(alice, "r-1", true)
	require.NotZero(t, first.ID)
	require.Len(t, first.OperationID, 64)
	require.Equal(t, first, made(alice, "r-another", false), "the row that is there, not what the second attempt has made up")

	refused := func(p core.Principal, key, body, reference string) {
		t.Helper()
		c.run(p, key, body, func(tx *gorm.DB) {
			row, created, err := once(tx, reference, 7)
			require.ErrorIs(t, err, gormstore.ErrOtherOperation)
			require.False(t, created)
			require.Zero(t, row.ID)
			require.EqualValues(t, 7, row.Amount, "nothing of the row that is there")
			require.NotEqual(t, first.Once, row.Once)
			require.NoError(t, tx.Find(&[]charge{}).Error, "the transaction goes on")
		})
	}
	refused(alice, "k-1", "9.00", "r-2") // the key has come back with another command
	refused(alice, "k-2", "5.00", "r-1") // another UNIQUE of the table
	refused(bob, "k-1", "5.00", "r-1")   // somebody else's row

	require.NotEqual(t, first.OperationID, made(bob, "r-bob", true).OperationID, "the same key of another principal")

	require.NoError(t, db.Delete(&charge{}, first.ID).Error)
	deleted := made(alice, "r-1", false)
	require.Equal(t, first.ID, deleted.ID, "softly deleted, and still there")
	require.True(t, deleted.DeletedAt.Valid)

	lines := func(tx *gorm.DB) (created int) {
		for line := range 3 {
			row := posting{Line: line}
			made := try(gormstore.CreateOnce(tx, &row)).ok(t)
			require.Equal(t, line, row.Line)
			require.NotZero(t, row.ID)
			if made {
				created++
			}
		}
		return created
	}
	c.run(alice, "k-lines", "", func(tx *gorm.DB) {
		require.Equal(t, 3, lines(tx))
		require.Zero(t, lines(tx))
	})
	c.run(alice, "k-lines", "", func(tx *gorm.DB) { require.Zero(t, lines(tx)) })

	if recovery == core.Park { // a stale owner and its successor
		c.run(alice, "k-race", "", func(tx *gorm.DB) {
			created := 0
			for _, one := range atOnce(16, func(int) result[bool] {
				_, created, err := once(tx, "r-race", 1)
				return try(created, err)
			}) {
				if one.ok(t) {
					created++
				}
			}
			require.Equal(t, 1, created)
		})
	}

	_, _, err := once(db, "r-x", 1)
	require.ErrorContains(t, err, "belongs to no attempt")
	require.Equal(t, 2, query[int](t, db, "SELECT count(*) FROM charges WHERE reference <> 'r-race'"))
}
