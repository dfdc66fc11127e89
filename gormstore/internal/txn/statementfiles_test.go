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
)

// declaredStatements reads the constants of all packages, and whether PostgreSQL or SQLite alone has a statement.
func declaredStatements(t *testing.T) map[Statement]string {
	t.Helper()
	declared := map[Statement]string{}
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
			declared[Statement(name)] = strings.TrimSpace(spec.Comment.Text())
			return true
		})
		require.Greater(t, len(declared), before, source)
	}
	return declared
}

// Each statement that is declared is in the files of its databases, and no other one is.
func TestStatementsAreInTheirFiles(t *testing.T) {
	declared := declaredStatements(t)
	require.Greater(t, len(declared), 50)
	for d, alone := range map[*Dialect]string{Postgres: "PostgreSQL", SQLite: "SQLite"} {
		texts, err := dialect.Render(d, "x")
		require.NoError(t, err)
		var want []Statement
		for name, only := range declared {
			if only == "" || only == alone {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		require.Equal(t, want, slices.Sorted(maps.Keys(texts)), d.Name)
	}
}

// What several of PostgreSQL's statements must say alike, they do.
func TestStatementsOfPostgreSQLAgree(t *testing.T) {
	texts, err := dialect.Render(Postgres, "x")
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
