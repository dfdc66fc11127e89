package dialect_test

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/gormstore/internal/dialect"
	"github.com/auth19/idem/gormstore/internal/dialect/mysql"
	"github.com/auth19/idem/gormstore/internal/dialect/postgres"
	"github.com/auth19/idem/gormstore/internal/dialect/sqlite"
)

var update = flag.Bool("update", false, "write the statements as they are rendered to golden.sql of each dialect")

// The whole statements stand in golden.sql of each dialect: there a reviewer sees what a change of a macro changes.
func TestGoldenStatements(t *testing.T) {
	for d, schema := range map[*dialect.Dialect]string{postgres.Dialect: "public", sqlite.Dialect: "main", mysql.Dialect: "`public`"} {
		texts, err := dialect.Render(d, schema)
		require.NoError(t, err)
		var all strings.Builder
		all.WriteString("-- Written by: go test ./gormstore/internal/dialect -update\n")
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			require.NotContains(t, texts[name], "--", "%s: comments stand before a statement: they are not sent", name)
			fmt.Fprintf(&all, "\n-- name: %s\n%s;\n", name, texts[name])
		}
		file := filepath.Join(d.Name, "golden.sql")
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(all.String()), 0o600))
		}
		golden, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(golden), all.String(), "see the comment at the head of %s", file)
	}
}

func TestRender(t *testing.T) {
	render := func(files string) (string, error) {
		texts, err := dialect.Render(&dialect.Dialect{
			Name: "another", Finish: func(_ dialect.Statement, text string) string { return text },
			Statements: []fs.FS{fstest.MapFS{"statements/a.sql": {Data: []byte(files + "\n" + words)}}},
		}, "mine")
		return texts["x"], err
	}
	for files, want := range map[string]string{
		"-- name: x\n-- A comment.\nSELECT ':', $1::int, :now;":           "SELECT ':', $1::int, 7",
		"-- name: x\nSELECT 1 FROM :\"schema\".t":                         "SELECT 1 FROM mine.t",
		"-- macro: one\n:latest(1, f(2))\n-- name: x\nSELECT :one + :one": "SELECT max(1, f(2)) + max(1, f(2))",
	} {
		got, err := render(files)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for files, want := range map[string]string{
		"-- name: x\nSELECT :nothing":              "there is no macro :nothing",
		"-- name: x\nSELECT :latest":               ":latest needs a text in parentheses",
		"-- name: x\nSELECT :latest(1":             ":latest needs a text in parentheses",
		"-- macro: a\n:a\n-- name: x\nSELECT :a":   "macros that go round",
		"-- name: x\nSELECT 1\n-- name: x\nSELECT": `there are two of the name "x"`,
	} {
		_, err := render(files)
		require.ErrorContains(t, err, want)
	}
}

// words are the macros that a dialect must have.
const words = `
-- macro: now
7
-- macro: latest
max(:it)
-- macro: durable
-- macro: earliest
min(:it)
-- macro: must_one
:it
-- macro: taken
-- macro: locked
-- macro: server
-- macro: durably
-- macro: skip_locked
-- macro: for_update
-- macro: this_database
-- macro: ids
-- macro: pairs
`
