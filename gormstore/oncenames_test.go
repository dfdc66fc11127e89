package gormstore_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// prefixed is a money row whose columns of Once have a prefix.
type prefixed struct {
	gormstore.Once `gorm:"embedded;embeddedPrefix:by_"`

	ID        uint
	Reference string `gorm:"not null;uniqueIndex"`
}

// The second line is there by whatever name GORM has for its columns: the audit finds it, and a lost record its row.
//
// CONTRACT D-1, D-2, D-3
func TestTheAppsOwnNamesOfColumns(t *testing.T) {
	for name, naming := range map[string]schema.Namer{
		"as they stand": schema.NamingStrategy{NoLowerCase: true},
		"replaced":      schema.NamingStrategy{NameReplacer: strings.NewReplacer("OperationID", "Op", "Hash", "Sum")},
		"prefixed":      schema.NamingStrategy{TablePrefix: "shop_"},
	} {
		t.Run(name, func(t *testing.T) {
			sqlitePostgres(t, func(t *testing.T, plain *gorm.DB) {
				db := reopen(t, plain, &gorm.Config{Logger: logger.Discard, NamingStrategy: naming})
				require.NoError(t, db.AutoMigrate(&charge{}, &prefixed{}))
				store := newStore(t, db)
				require.NoError(t, gormstore.Audit(t.Context(), db, &charge{}, &prefixed{}))
				c := cashier{t, db, newModule(t, store, core.Policy{Recovery: core.Rollback}), gormstore.Tx}
				for _, want := range []bool{true, false} {
					c.run(alice, "key", "", func(tx *gorm.DB) {
						require.Equal(t, want, try(gormstore.CreateOnce(tx, &charge{Reference: "r"})).ok(t))
						require.Equal(t, want, try(gormstore.CreateOnce(tx, &prefixed{Reference: "r"})).ok(t))
					})
				}
				c.run(alice, "key", "another command", func(tx *gorm.DB) {
					_, err := gormstore.CreateOnce(tx, &charge{Reference: "r"})
					require.ErrorIs(t, err, gormstore.ErrOtherOperation)
				})

				require.NoError(t, db.Migrator().DropIndex(&charge{}, "OperationID"))
				field := try(schema.Parse(&charge{}, new(sync.Map), naming)).ok(t).FieldsByName["OperationID"]
				require.ErrorContains(t, gormstore.Audit(t.Context(), db, &charge{}), "with "+field.DBName+" among them")
				require.NoError(t, db.Migrator().DropColumn(&charge{}, field.DBName))
				missing := "the column " + field.DBName + " is missing in the database"
				require.ErrorContains(t, gormstore.Audit(t.Context(), db, &charge{}), missing)
				parked := cashier{t, db, newModule(t, store, core.Policy{Recovery: core.Park}), db.WithContext}
				parked.run(alice, "k", "", func(tx *gorm.DB) {
					_, err := gormstore.CreateOnce(tx, &charge{Reference: "r-2"})
					require.ErrorContains(t, err, missing)
				})
			})
		})
	}
}

// With a schema for each tenant, the audit is given each tenant's table, as CreateOnce is.
//
// CONTRACT D-2
func TestAuditOfTenants(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		store := newStore(t, db)
		tables := []string{"tenant_a", "tenant_b"}
		if db.Name() == "postgres" {
			own := currentSchema(t, db)
			tables = []string{own + "_a.charges", own + "_b.charges"}
			for _, tenant := range []string{own + "_a", own + "_b"} {
				execute(t, db, "CREATE SCHEMA "+tenant)
				t.Cleanup(func() { execute(t, db, "DROP SCHEMA "+tenant+" CASCADE") })
			}
		}
		for _, table := range tables {
			execute(t, db, "CREATE TABLE "+table+" (operation_id varchar(64) NOT NULL UNIQUE, command_hash varchar(70) NOT NULL, "+
				"id bigint, reference text, amount bigint, deleted_at timestamp)")
		}
		tenant := func(table string) *gorm.DB { return db.Model(&charge{}).Table(table) }
		require.ErrorContains(t, gormstore.Audit(t.Context(), db, &charge{}), "there is no such table")
		require.NoError(t, gormstore.Audit(t.Context(), db, tenant(tables[0]), tenant(tables[1])))
		c := cashier{t, db, newModule(t, store, core.Policy{Recovery: core.Rollback}), gormstore.Tx}
		for _, want := range []bool{true, false} {
			c.run(alice, "key", "", func(tx *gorm.DB) {
				require.Equal(t, want, try(gormstore.CreateOnce(tx.Table(tables[0]), &charge{Reference: "r"})).ok(t))
			})
		}

		execute(t, db, "DROP TABLE "+tables[1], "CREATE TABLE "+tables[1]+" (operation_id varchar(64), command_hash varchar(70))")
		err := gormstore.Audit(t.Context(), db, tenant(tables[0]), tenant(tables[1]))
		require.ErrorContains(t, err, "no UNIQUE index")
		require.ErrorContains(t, err, "charge")
		require.Contains(t, strings.ReplaceAll(err.Error(), `"`, ""), "money table "+tables[1]+" (*gormstore_test.charge)")
		require.Equal(t, 1, strings.Count(err.Error(), "money table"))
		require.ErrorContains(t, gormstore.Audit(t.Context(), db, db.Table(tables[0])), "no GORM model")
	})
}
