package gormstore

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// declaredStatements reads the constants of statements.go, and whether PostgreSQL or SQLite alone has them.
func declaredStatements(t *testing.T) map[statement]string {
	t.Helper()
	file, err := parser.ParseFile(gotoken.NewFileSet(), "statements.go", nil, parser.ParseComments)
	require.NoError(t, err)
	declared := map[statement]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		value, ok := spec.Values[0].(*ast.BasicLit)
		if kind, typed := spec.Type.(*ast.Ident); !ok || !typed || kind.Name != "statement" {
			return true
		}
		name, err := strconv.Unquote(value.Value)
		require.NoError(t, err)
		require.Equal(t, spec.Names[0].Name, name)
		declared[statement(name)] = strings.TrimSpace(spec.Comment.Text())
		return true
	})
	return declared
}

// Each statement that is declared is in the files of its databases, and no other one is.
func TestStatementsAreInTheirFiles(t *testing.T) {
	declared := declaredStatements(t)
	require.Greater(t, len(declared), 50)
	for d, alone := range map[*dialect]string{postgres: "PostgreSQL", sqlite: "SQLite"} {
		texts, err := readStatements(d, "x")
		require.NoError(t, err)
		var want []statement
		for name, only := range declared {
			if only == "" || only == alone || name == listNewest {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		require.Equal(t, want, slices.Sorted(maps.Keys(texts)), d.name)
		for name, text := range texts {
			require.NotEmpty(t, text, name)
			require.NotContains(t, text, "--", "%s: comments stand before a statement: they are not sent", name)
		}
	}
}

// What several statements must say alike, they do.
func TestStatementsAgree(t *testing.T) {
	const (
		clockPostgres = "pg_catalog.clock_timestamp()"
		clockSQLite   = "CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000"
	)
	phrases := []struct {
		what, text string
		in         []statement
	}{
		{"a free record", "r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= NOW AND NOT r.timed",
			[]statement{takeOver, importRecord, keepOut, forgetSteps}},
		{"an unknown state", "r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= NOW)",
			[]statement{list, count, settle}},
		{"a resumable operation", "r.state = 1 AND r.recovery = 2 AND r.lease_until <= NOW", []statement{takeOver, list, count, countOpen}},
		{"the clock's window", "NOW >= FROM_2 AND NOW <= FROM_3", []statement{forgetSightings, forgetMessages, forgetIntents}},
		{"the columns of a record", "r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, " +
			"r.hash_version, r.command_hash, r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.status, " +
			"r.partial, r.answer_encoding, r.headers, r.body, r.attempts, r.timed, r.traceparent", []statement{find, list}},
		{"the floor of a key", "SELECT CAST(f.value AS bigint) FROM", []statement{claimKey, takeOver}},
		{"the columns of an intent", "intent, idempotency_key, hash_version, command_hash, begun_at, begun_by, " +
			"ended_at IS NOT NULL, NOW", []statement{beginIntent, findIntent, pendingIntents}},
	}
	for _, d := range []*dialect{postgres, sqlite} {
		texts, err := readStatements(d, "x")
		require.NoError(t, err)
		alike := strings.NewReplacer("(SELECT now FROM c)", "NOW", "c.now", "NOW", clockPostgres, "NOW", clockSQLite, "NOW",
			"timestamptz 'epoch' + $2::bigint * interval '1 microsecond'", "FROM_2", "?2", "FROM_2",
			"timestamptz 'epoch' + $3::bigint * interval '1 microsecond'", "FROM_3", "?3", "FROM_3")
		for _, phrase := range phrases {
			for _, name := range phrase.in {
				require.Contains(t, alike.Replace(strings.Join(strings.Fields(texts[name]), " ")), phrase.text,
					"%s: %s says otherwise what %s is", d.name, name, phrase.what)
			}
		}
	}
}

// A page and a count select the same records, among those that a sweep has seen and among the others.
func TestListAndCountSelectAlike(t *testing.T) {
	for d, end := range map[*dialect]string{postgres: "r.created_at < $11::timestamptz", sqlite: "r.created_at < ?11"} {
		texts, err := readStatements(d, "x")
		require.NoError(t, err)
		var first string
		for _, name := range []statement{list, listNewest, count} {
			parts := strings.Split(strings.Join(strings.Fields(texts[name]), " "), "r.realm >=")
			require.Len(t, parts, 3, "%s: %s", d.name, name)
			for _, part := range parts[1:] {
				selects, _, found := strings.Cut(part, end)
				require.True(t, found, "%s: %s", d.name, name)
				if first == "" {
					first = selects
				}
				require.Equal(t, first, selects, "%s: %s", d.name, name)
			}
		}
	}
}

// The same for what only PostgreSQL has.
func TestStatementsOfPostgreSQLAgree(t *testing.T) {
	texts, err := readStatements(postgres, "x")
	require.NoError(t, err)
	mark := strings.Join(strings.Fields(texts[begun]), " ")
	completes := strings.Join(strings.Fields(texts[complete]), " ")
	phrases := []struct {
		text string
		in   []statement
	}{
		// A statement that is a transaction by itself says it where its COMMIT decides whether a command runs again: COMMIT is
		// then confirmed as if nobody had left synchronous_commit off on the connection.
		{"CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off' THEN " +
			"pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END",
			[]statement{claimKey, insertRecord, takeOver, complete, park, keepOut, settle, erase,
				beginIntent, raiseKeyFloor}},
		{strings.TrimSpace(completes[strings.Index(completes, "SET "):strings.Index(completes, " FROM (")]), []statement{sealAnswer}},
		{"coalesce((SELECT CAST(p.value AS bigint) FROM x.idempotency_setting p WHERE p.name = 'patrol/limit'), 0)",
			[]statement{claimKey, insertRecord, takeOver, recordRunning}},
		{"r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= pg_catalog.clock_timestamp() AND NOT r.timed",
			[]statement{recordOver, recordRunning, loseAnswer}},
		// The first statement of a transaction guards it, and reads its mark.
		{mark[strings.Index(mark, "pg_catalog.pg_backend_pid()"):strings.Index(mark, "$1")], []statement{lockFirst}},
		{"pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> '' " +
			"THEN pg_catalog.pg_postmaster_start_time() END, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, " +
			"r.method, r.route, r.hash_version, r.command_hash, r.created_at, r.lease_until, r.deadline_at, r.expires_at, " +
			"r.purge_at, r.status, r.partial, r.answer_encoding, r.headers, r.body, r.attempts, r.timed, r.traceparent",
			[]statement{claimKey, lookFirst, look, find, list}},
		{strings.TrimPrefix(strings.Join(strings.Fields(texts[whichDatabase]), " "), "SELECT "), []statement{planIntent, doneIntent}},
	}
	for _, phrase := range phrases {
		for _, name := range phrase.in {
			require.Contains(t, strings.Join(strings.Fields(texts[name]), " "), phrase.text, name)
		}
	}
}
