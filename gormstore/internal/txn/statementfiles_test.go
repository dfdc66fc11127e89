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
		texts, err := readStatements(d, "x")
		require.NoError(t, err)
		var want []Statement
		for name, only := range declared {
			if only == "" || only == alone || name == ListNewest {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		require.Equal(t, want, slices.Sorted(maps.Keys(texts)), d.Name)
		for name, text := range texts {
			require.NotEmpty(t, text, name)
			require.NotContains(t, text, "--", "%s: comments stand before a statement: they are not sent", name)
		}
	}
}

// What several statements must say alike, they do.
func TestStatementsAgree(t *testing.T) {
	phrases := []struct {
		what, text string
		in         []Statement
	}{
		{"a free record", "r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= NOW AND NOT r.timed",
			[]Statement{"takeOver", "importRecord", "keepOut", "forgetSteps"}},
		{"an unknown state", "r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= NOW)",
			[]Statement{List, "count", "settle"}},
		{"a resumable operation", "r.state = 1 AND r.recovery = 2 AND r.lease_until <= NOW", []Statement{"takeOver", List, "count", "countOpen"}},
		{"the clock's window", "NOW >= FROM_2 AND NOW <= FROM_3", []Statement{"forgetSightings", "forgetMessages", "forgetIntents"}},
		{"the columns of a record", "r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, " +
			"r.hash_version, r.command_hash, r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.status, " +
			"r.partial, r.answer_encoding, r.headers, r.body, r.attempts, r.timed, r.traceparent", []Statement{"find", List}},
		{"the floor of a key", "SELECT CAST(f.value AS bigint) FROM", []Statement{"claimKey", "takeOver"}},
		{"the columns of an intent", "intent, idempotency_key, hash_version, command_hash, begun_at, begun_by, " +
			"ended_at IS NOT NULL, NOW", []Statement{"beginIntent", "findIntent", "pendingIntents"}},
	}
	for _, d := range []*Dialect{Postgres, SQLite} {
		texts, err := readStatements(d, "x")
		require.NoError(t, err)
		alike := strings.NewReplacer("(SELECT now FROM c)", "NOW", "c.now", "NOW", d.words[1], "NOW",
			"$2::bigint", "FROM_2", "?2", "FROM_2",
			"$3::bigint", "FROM_3", "?3", "FROM_3")
		for _, phrase := range phrases {
			for _, name := range phrase.in {
				require.Contains(t, alike.Replace(strings.Join(strings.Fields(texts[name]), " ")), phrase.text,
					"%s: %s says otherwise what %s is", d.Name, name, phrase.what)
			}
		}
	}
}

// A page and a count select the same records, among those that a sweep has seen and among the others.
func TestListAndCountSelectAlike(t *testing.T) {
	for d, end := range map[*Dialect]string{Postgres: "r.created_at < $11::bigint", SQLite: "r.created_at < ?11"} {
		texts, err := readStatements(d, "x")
		require.NoError(t, err)
		var first string
		for _, name := range []Statement{List, ListNewest, "count"} {
			parts := strings.Split(strings.Join(strings.Fields(texts[name]), " "), "r.realm >=")
			require.Len(t, parts, 3, "%s: %s", d.Name, name)
			for _, part := range parts[1:] {
				selects, _, found := strings.Cut(part, end)
				require.True(t, found, "%s: %s", d.Name, name)
				if first == "" {
					first = selects
				}
				require.Equal(t, first, selects, "%s: %s", d.Name, name)
			}
		}
	}
}

// The same for what only PostgreSQL has.
func TestStatementsOfPostgreSQLAgree(t *testing.T) {
	texts, err := readStatements(Postgres, "x")
	require.NoError(t, err)
	mark := strings.Join(strings.Fields(texts[begun]), " ")
	completes := strings.Join(strings.Fields(texts["complete"]), " ")
	which, _, _ := strings.Cut(strings.Join(strings.Fields(texts["whichDatabase"]), " "), ") AS answer")
	phrases := []struct {
		text string
		in   []Statement
	}{
		// A statement that is a transaction by itself says it where its COMMIT decides whether a command runs again: COMMIT is
		// then confirmed as if nobody had left synchronous_commit off on the connection.
		{"CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off' THEN " +
			"pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END",
			[]Statement{"claimKey", "insertRecord", "takeOver", "complete", "park", "keepOut", "settle", "erase",
				"beginIntent", "raiseKeyFloor"}},
		{strings.TrimSpace(completes[strings.Index(completes, "SET "):strings.Index(completes, " FROM (")]), []Statement{"sealAnswer"}},
		{"coalesce((SELECT CAST(p.value AS bigint) FROM x.idempotency_setting p WHERE p.name = 'patrol/limit'), 0)",
			[]Statement{"claimKey", "insertRecord", "takeOver", "recordRunning"}},
		{"r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= " + Postgres.words[1] + " AND NOT r.timed",
			[]Statement{"recordOver", "recordRunning", "loseAnswer"}},
		// The first statement of a transaction guards it, and reads its mark.
		{mark[strings.Index(mark, "pg_catalog.pg_backend_pid()"):strings.Index(mark, "$1")], []Statement{"lockFirst"}},
		{"pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> '' " +
			"THEN " + microsOf("pg_postmaster_start_time") + " END, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, " +
			"r.method, r.route, r.hash_version, r.command_hash, r.created_at, r.lease_until, r.deadline_at, r.expires_at, " +
			"r.purge_at, r.status, r.partial, r.answer_encoding, r.headers, r.body, r.attempts, r.timed, r.traceparent",
			[]Statement{"claimKey", "lookFirst", "look", "find", List}},
		{strings.TrimPrefix(which, "SELECT answer.* FROM (SELECT "), []Statement{"planIntent", "doneIntent"}},
	}
	for _, phrase := range phrases {
		for _, name := range phrase.in {
			require.Contains(t, strings.Join(strings.Fields(texts[name]), " "), phrase.text, name)
		}
	}
}
