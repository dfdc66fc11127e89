package gormstore_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// next returns the line after its caller's, as the store reports it.
func next() string {
	_, file, line, _ := runtime.Caller(1)
	return file + ":" + strconv.Itoa(line+1)
}

func TestStrayWritesAreReported(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		var places []string
		report := gormstore.ReportStrayWrites(func(place string) { places = append(places, place) })
		store, err := gormstore.New(db, report)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		dry := db.Session(&gorm.Session{DryRun: true}) // else it would wait for the attempt's locks, as in an app

		dry.Create(&effect{Name: "without an attempt"})
		tx, ctx := begin(t, store, command(core.Rollback))
		var strays []string
		for range 2 { // each place once
			strays = append(strays[:0], next())
			dry.Create(&effect{Name: "stray"})
		}
		strays = append(strays, next())
		dry.Exec("UPDATE effects SET name = 'stray'")
		strays = append(strays, next())
		dry.WithContext(context.Background()).Save(&effect{ID: 1})

		require.NoError(t, gormstore.Tx(ctx).Create(&effect{Name: "inside"}).Error)
		dry.WithContext(gormstore.Outside(ctx)).Create(&effect{Name: "meant"})
		dry.WithContext(gormstore.Outside(context.Background())).Create(&effect{Name: "meant"})
		dry.Raw("SELECT count(*) FROM effects").Scan(new(int))
		elsewhere := make(chan struct{})
		go func() { // a job of the app
			defer close(elsewhere)
			dry.Create(&effect{Name: "job"})
		}()
		<-elsewhere
		require.NoError(t, tx.Rollback())
		dry.Create(&effect{Name: "after"})

		require.Equal(t, strays, places)
	})
}
