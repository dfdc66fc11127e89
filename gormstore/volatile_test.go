package gormstore_test

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/gormstore/internal/dialect"
	"github.com/auth19/idem/gormstore/internal/dialect/postgres"
)

// What a statement writes depends on its parameters, on rows and on the clock: a database that sends a statement to several
// servers, or sends it again, gets the same. Where a function does something itself it stands in a SELECT of its own.
//
// CONTRACT X-4
func TestWritesCallNoVolatileFunction(t *testing.T) {
	texts, err := dialect.Render(postgres.Dialect, "public")
	require.NoError(t, err)
	writes, calls := regexp.MustCompile(`\b(INSERT INTO|UPDATE|DELETE FROM)\b`), regexp.MustCompile(`\b(\w+)\(`)
	volatile := query[[]string](t, newPostgres(t, 2), "SELECT DISTINCT proname FROM pg_proc WHERE provolatile = 'v'")
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if !writes.MatchString(texts[name]) {
			continue
		}
		for _, call := range calls.FindAllStringSubmatch(texts[name], -1) {
			require.NotContains(t, volatile, call[1], string(name))
		}
	}
}
