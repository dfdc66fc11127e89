package txn

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"go/types"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/gormstore/internal/dialect"
	"github.com/auth19/idem/gormstore/internal/dialect/postgres"
)

// declaredStatements reads the constants of all packages.
func declaredStatements(t *testing.T) (declared []Statement) {
	t.Helper()
	for _, source := range []string{
		"statementtexts.go", "../../statements.go", "../../inbox/marker.go", "../../journal/journal.go",
	} {
		before := len(declared)
		file, err := parser.ParseFile(gotoken.NewFileSet(), source, nil, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || spec.Type == nil || !strings.HasSuffix(types.ExprString(spec.Type), "Statement") {
				return true
			}
			value, ok := spec.Values[0].(*ast.BasicLit)
			require.True(t, ok)
			name, err := strconv.Unquote(value.Value)
			require.NoError(t, err)
			require.True(t, strings.EqualFold(spec.Names[0].Name, name), name)
			declared = append(declared, Statement(name))
			return true
		})
		require.Greater(t, len(declared), before, source)
	}
	slices.Sort(declared)
	return slices.Compact(declared)
}

// Each statement that is declared is in the files of each database, if only as one without a use, and no other one is.
func TestStatementsAreInTheirFiles(t *testing.T) {
	declared := declaredStatements(t)
	require.Greater(t, len(declared), 50)
	for _, d := range Dialects {
		texts, err := dialect.Render(d, "x")
		require.NoError(t, err)
		require.Equal(t, declared, slices.Sorted(maps.Keys(texts)), d.Name)
	}
}

// What several of PostgreSQL's statements must say alike, they do.
func TestStatementsOfPostgreSQLAgree(t *testing.T) {
	texts, err := dialect.Render(postgres.Dialect, "x")
	require.NoError(t, err)
	mark := strings.Join(strings.Fields(texts[begun]), " ")
	now := strings.TrimPrefix(texts["clock"], "SELECT answer.* FROM (SELECT ")
	now, _, _ = strings.Cut(now, ") AS answer")
	phrases := []struct {
		text string
		in   []Statement
	}{
		{"r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= " + now + " AND NOT r.timed",
			[]Statement{"recordOver", "runOver", "loseAnswer"}},
		// The first statement of a transaction guards it, and reads its mark.
		{mark[strings.Index(mark, "pg_catalog.pg_backend_pid()"):strings.Index(mark, "$1")], []Statement{"lockFirst"}},
	}
	for _, phrase := range phrases {
		for _, name := range phrase.in {
			require.Contains(t, strings.Join(strings.Fields(texts[name]), " "), phrase.text, name)
		}
	}
}
