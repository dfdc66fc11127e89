package gormstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/pgxpipe"
)

// pipelined marks a database whose stores send several statements in one round trip.
type pipelined struct{}

// Name implements [gorm.Plugin].
func (pipelined) Name() string { return "test:pipelined" }

// Initialize implements [gorm.Plugin].
func (pipelined) Initialize(*gorm.DB) error { return nil }

// optionsFor are those of a store on db.
func optionsFor(db *gorm.DB) []gormstore.Option {
	if _, ok := db.Plugins[pipelined{}.Name()]; ok {
		return []gormstore.Option{gormstore.WithPipeline(pgxpipe.New())}
	}
	return nil
}

// way is how the statements of a Rollback attempt are sent.
type way bool

const (
	oneByOne   way = false
	inPipeline way = true
)

// of makes the stores on db send their statements in this way.
func (w way) of(t *testing.T, db *gorm.DB) *gorm.DB {
	t.Helper()
	if w == inPipeline {
		require.NoError(t, db.Use(pipelined{}))
	}
	return db
}

// fresh makes databases whose stores send their statements in this way.
func (w way) fresh(parameters string, simple bool) func(t *testing.T) func(t *testing.T) *gorm.DB {
	return func(t *testing.T) func(t *testing.T) *gorm.DB {
		open := freshPostgres(parameters, simple)(t)
		return func(t *testing.T) *gorm.DB { return w.of(t, open(t)) }
	}
}

// bothWays runs a test in both ways.
func bothWays(t *testing.T, run func(t *testing.T, way way)) {
	t.Helper()
	t.Run("one by one", func(t *testing.T) { run(t, oneByOne) })
	t.Run("pipelined", func(t *testing.T) { run(t, inPipeline) })
}
