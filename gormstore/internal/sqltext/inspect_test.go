package sqltext

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// controlOf are texts that a database takes for transaction control, and texts that only look like it. Those of both come
// first.
var (
	controlOfBoth = []string{
		"COMMIT", "commit", "END", "ROLLBACK", "Begin", "BEGIN IMMEDIATE", "ROLLBACK TRANSACTION", "COMMIT AND CHAIN",
		" \n\t-- a comment\n/* and another; */ COMMIT",
		"BEGIN; INSERT INTO effects (name) VALUES ('x'); COMMIT", "INSERT INTO effects (name) VALUES ('x'); commit;",
		"SELECT 'it''s'; COMMIT", `SELECT "a;b"; COMMIT`, "SELECT 1 -- ;\n; END", "COMMIT -- never sent",
		`SELECT '\'; COMMIT; --'`, // a backslash is a character like any other
		"SAVEPOINT " + Savepoint, "release savepoint " + strings.ToUpper(Savepoint), `RELEASE "` + Savepoint + `"`,
		"ROLLBACK TO " + Savepoint, "ROLLBACK TRANSACTION TO SAVEPOINT " + Savepoint,
		"SAVEPOINT " + MessageSavepoint, "ROLLBACK TO " + MessageSavepoint, "RELEASE SAVEPOINT " + MessageSavepoint,
		"CREATE TABLE a (b text DEFAULT 'x'); COMMIT",
	}
	harmlessOfBoth = []string{
		"", ";", "SELECT 1", "SELECT 'COMMIT'", "SELECT '; COMMIT; '", `SELECT 1 AS "; COMMIT; "`,
		"SELECT 1 -- ; COMMIT", "SELECT 1 /* ; COMMIT; */", "SELECT 'it''s; COMMIT'", "UPDATE effects SET name = 'END' -- ; END",
		"SAVEPOINT mine", "ROLLBACK TO mine", "ROLLBACK TO SAVEPOINT mine", "ROLLBACK TRANSACTION TO SAVEPOINT mine",
		"RELEASE mine", "RELEASE SAVEPOINT mine", "SAVEPOINT sp0xc000123456", "SELECT CASE WHEN true THEN 1 END",
		"SELECT 1; SELECT 2;", "EXPLAIN SELECT 1", "INSERT INTO commits VALUES (1)", "SELECT 1 AS committed", "/* COMMIT",
		"ROLLBACK TO SAVEPOINT " + Savepoint + "_2",
	}
	controlOfPostgres = []string{
		"START TRANSACTION", "ABORT", "ABORT WORK", "ROLLBACK WORK", "PREPARE TRANSACTION 'x'", "COMMIT PREPARED 'x'",
		"ROLLBACK PREPARED 'x'", "SET TRANSACTION READ ONLY", "SET LOCAL TRANSACTION ISOLATION LEVEL SERIALIZABLE",
		"set session characteristics as transaction read only", "RESET ALL", "DISCARD ALL",
		"SET ROLE teller", "set search_path = shop", "SET SESSION AUTHORIZATION x", "SET SESSION statement_timeout = 1",
		"SET default_transaction_read_only = on", "SET LOCAL transaction_read_only = on", "set local Transaction_Isolation TO serializable",
		`SET LOCAL "transaction_deferrable" = on`, `SET LOCAL U&"transaction\005fread_only" = on`, "RESET transaction_read_only",
		"SELECT set_config('transaction_read_only', 'on', true)", "SELECT set_config(setting_name => 'TRANSACTION_ISOLATION', $1, is_local => true)",
		"SELECT 1; SET TIME ZONE 'UTC'", `SAVEPOINT U&"\0069dem_message"`,
		"/* a /* nested */ ; */ COMMIT", `SELECT E'it\'s'; COMMIT`, "SELECT $$;$$; COMMIT", "SELECT $a$ $b$ $a$; COMMIT",
		"SELECT 1 -- ;\r; COMMIT", `SELECT E'a' -- on the next line
	'\''; COMMIT`, "SELECT a$$ ; COMMIT", "SELECT '[' ; COMMIT", "SELECT 1 # 2; COMMIT",
		"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END; COMMIT",
		"SELECT set_config('role', 'teller', false)", "SELECT set_config('role', 'teller', 1 = 1)",
		"SELECT 1; SELECT Set_Config ('role', concat('a', 'b'), NOT true)", "SELECT set_config('role', $1, $2)",
		`SELECT pg_catalog."set_config"('role', 'teller', 'f'::bool)`, "SELECT set_config('a', 'b', true), set_config('a', 'b', x)",
		"SELECT set_config(setting_name => 'role', new_value => 'teller', is_local => false)",
		`SELECT '\''; COMMIT; --'`, `SELECT 'a', '\\\''; COMMIT; --'`, // with standard_conforming_strings off
		`SELECT '\''; SELECT set_config('role', 'teller', false); --'`,
		`SELECT 'C:\', 'it''s; COMMIT'`, // in doubt
	}
	harmlessOfPostgres = []string{
		`SELECT 'C:\', 'it''s'; SELECT 1`, `SELECT '\\'; SELECT 1`, `SELECT "\""; COMMIT; --"`,
		"PREPARE p AS SELECT 1", "SET LOCAL synchronous_commit = off", "SET CONSTRAINTS ALL DEFERRED", "RESET role",
		`SELECT E'\'; COMMIT; --'`, "SELECT $$; COMMIT; $$", "SELECT $a$; COMMIT; $$; COMMIT; $a$", `SELECT e'\\\'; COMMIT'`,
		"SELECT 1 /* /* ; */ ; COMMIT */", "DO $$ BEGIN PERFORM 1; END $$", `SELECT E'a'
	'\'; COMMIT; --'`, "SELECT $1; SELECT $2",
		"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 1; END",
		"SELECT set_config('role', 'teller', true)", "SELECT pg_catalog.set_config('role', concat('a', (SELECT b[1] FROM c)), TRUE)",
		"SELECT set_config(setting_name => 'role', new_value => 'teller', is_local => true)",
		"SET LOCAL default_transaction_read_only = on", "SET LOCAL application_name = 'transaction_read_only'",
		"SELECT set_config('application_name', 'transaction_read_only', true)", "SELECT transaction_read_only FROM t",
		"SELECT shop.set_config('role', 'teller', false)", "SELECT 'set_config(1, 2, false)'",
	}
	controlOfSQLite = []string{
		"PRAGMA query_only = on", "PRAGMA main.synchronous=0", "PRAGMA query_only(1)",
		"\ufeffCOMMIT", "SELECT [;]; COMMIT", "SELECT `;`; COMMIT", "SELECT $$; COMMIT", "/* /* */ COMMIT",
		"RELEASE [" + Savepoint + "]", "RELEASE '" + Savepoint + "'", "ROLLBACK TRANSACTION mine",
		"CREATE TRIGGER t AFTER INSERT ON effects BEGIN SELECT CASE WHEN 1 THEN 2 END; END; COMMIT", `SELECT E'\'; COMMIT; --'`,
	}
	harmlessOfSQLite = []string{
		`SELECT '\''; COMMIT; --'`,
		"PRAGMA table_info(effects)",
		"SELECT [; COMMIT;]", "SELECT `; COMMIT;`", "SELECT '[' ; SELECT ']'", "ROLLBACK TRANSACTION mine TO SAVEPOINT mine",
		"CREATE TEMP TRIGGER t AFTER INSERT ON effects BEGIN SELECT CASE WHEN 1 THEN 2 END; DELETE FROM effects; END",
		"INSERT OR ROLLBACK INTO effects (name) VALUES ('x')", // noticed, because SQLite says so
	}
)

// CONTRACT X-8
func TestControlIsRecognised(t *testing.T) {
	for d, texts := range map[Dialect][2][][]string{
		Postgres: {{controlOfBoth, controlOfPostgres}, {harmlessOfBoth, harmlessOfPostgres}},
		SQLite:   {{controlOfBoth, controlOfSQLite}, {harmlessOfBoth, harmlessOfSQLite}},
	} {
		for _, refused := range texts[0] {
			for _, text := range refused {
				require.ErrorIs(t, Inspect(d, text).Control, ErrControl, "%v: %q", d, text)
			}
		}
		for _, harmless := range texts[1] {
			for _, text := range harmless {
				require.NoError(t, Inspect(d, text).Control, "%v: %q", d, text)
			}
		}
	}
}

// CONTRACT X-9
func TestChangesOfSettingsAreRecognised(t *testing.T) {
	for text, changes := range map[string]bool{
		"SET LOCAL ROLE teller": true, "set local search_path = shop": true, "RESET role": true, "DO $$ BEGIN END $$": true,
		"CALL become('teller')": true, "SELECT set_config('role', 'teller', true)": true, "SELECT 1; SET LOCAL ROLE teller": true,
		`SELECT "set_config"('role', 'teller', true)`: true, "SELECT pg_catalog . SET_CONFIG('role', 'teller', true)": true,
		"UPDATE effects SET name = 'x'": false, "SELECT 'set_config'": false, "SELECT 1 -- ; SET ROLE x": false,
	} {
		require.Equal(t, changes, Inspect(Postgres, text).Changes, text)
	}
}

// CONTRACT X-9
func TestResidueIsRecognised(t *testing.T) {
	for text, residue := range map[string][]string{
		"DO $$ BEGIN END $$": {"DO"}, "CALL become('teller')": {"CALL"}, "SELECT 1; call become('teller')": {"CALL"},
		"RESET ROLE": {"RESET"}, "LISTEN orders": {"LISTEN"}, "PREPARE p AS SELECT become('x')": {"PREPARE"}, "EXECUTE p": {"EXECUTE"},
		"CREATE TEMP TABLE t (a int)": {"CREATE"}, "LOAD 'x'": {"LOAD"}, "SELECT * INTO TEMP t FROM effects": {"INTO"},
		"WITH x AS (TABLE y) SELECT * INTO UNLOGGED t FROM x": {"INTO"}, "SELECT 1 INTO pg_temp.effects": {"INTO"},
		"EXPLAIN ANALYZE CREATE TEMP TABLE t AS SELECT 1": {"CREATE"}, "EXPLAIN ANALYZE EXECUTE p": {"EXECUTE"},
		"SELECT become('teller')": {"become"}, `SELECT "Become" ('teller')`: {"become"}, "(SELECT become('x'))": {"become"},
		"SELECT shop.Become('teller')": {"shop.become"}, "SELECT shop.now()": {"shop.now"}, "SELECT pg_catalog.become(1)": {"pg_catalog.become"},
		"INSERT INTO effects (name) VALUES (become('x'))": {"become"}, "INSERT INTO effects SELECT become('x')": {"become"},
		"INSERT INTO effects (name) VALUES ('x') RETURNING become(name)":                       {"become"},
		"INSERT INTO effects (name) VALUES ('x') ON CONFLICT (name) DO UPDATE SET name = f(1)": {"f"},
		"UPDATE effects SET name = become(name) WHERE total(id) > 1":                           {"become"}, // SQLite's total is in the list
		"UPDATE effects SET (name, id) = (lower('x'), f(1))":                                   {"f"},
		"DELETE FROM effects WHERE id IN (SELECT f(id) FROM effects)":                          {"f"},
		"WITH x (a) AS (SELECT become('x')) SELECT a FROM x":                                   {"become"},
		"SELECT conflict(1)": {"conflict"}, "SELECT set(1), insert(2)": {"set", "insert"}, "SELECT f(1), g(2); SELECT h(3)": {"f", "g", "h"},
		"SELECT pg_advisory_lock(1)": {"pg_advisory_lock"}, `SELECT '\'', become(1) --'`: {"become"}, // see lexer.backslash
	} {
		require.Equal(t, residue, Inspect(Postgres, text).Residue, text)
	}
	for _, text := range []string{
		"", ";", "SELECT 1", `INSERT INTO "effects" ("name","id") VALUES ($1,$2) RETURNING "id"`,
		`INSERT INTO "shop"."effects" AS "e" ("name") VALUES ($1) ON CONFLICT ("name") DO UPDATE SET ("name") = ROW ("excluded"."name")`,
		`INSERT INTO effects VALUES (lower($1), nextval('s')) ON CONFLICT ON CONSTRAINT c DO NOTHING`,
		`SELECT count(*) FROM "effects" WHERE "id" IN ($1,$2) AND name LIKE ('x') FOR UPDATE`,
		"UPDATE effects SET (name, id) = ('x', 1) WHERE id = ANY($1)", "DELETE FROM effects USING (SELECT 1) x WHERE (id = 1)",
		"SELECT pg_advisory_xact_lock(hashtext($1))", "SELECT set_config('app.tenant', $1, true)", "SELECT pg_notify('a', 'b')",
		"SET LOCAL ROLE teller", "SET CONSTRAINTS ALL DEFERRED", "SAVEPOINT a", "RELEASE a", "ROLLBACK TO SAVEPOINT a",
		"LOCK TABLE effects IN SHARE MODE", "NOTIFY orders, 'become(1)'", "SELECT 'become(1)' -- become(2)",
		"MERGE INTO effects USING (VALUES (1)) AS v (id) ON false WHEN NOT MATCHED THEN INSERT (name) VALUES ('x')",
		"WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n", "SELECT x::numeric(10, 2) FROM y",
		"SELECT row_number() OVER (PARTITION BY name ORDER BY id) FROM effects", "((SELECT 1))", "UPDATE jobs SET execute = true",
	} {
		require.Empty(t, Inspect(Postgres, text).Residue, text)
	}
	require.Empty(t, Inspect(SQLite, "SELECT become(1)").Residue)
}

func BenchmarkInspect(b *testing.B) {
	for name, text := range map[string]string{
		"insert": `INSERT INTO "effects" ("name","amount","operation_id") VALUES ($1,$2,$3) RETURNING "id"`,
		"upsert": `INSERT INTO "effects" ("name") VALUES ($1) ON CONFLICT ("name") DO NOTHING`,
		"select": `SELECT * FROM "effects" WHERE "effects"."id" = $1 AND "name" IN ($2,$3) ORDER BY "effects"."id" LIMIT $4 FOR UPDATE`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Inspect(Postgres, text)
			}
		})
	}
}

// For every text: the lexer ends, returns every character except white space and comments, in order, and finds transaction
// control after anything that is closed.
//
// CONTRACT X-8
func FuzzControl(f *testing.F) {
	for _, texts := range [][]string{controlOfBoth, harmlessOfBoth, controlOfPostgres, harmlessOfPostgres, controlOfSQLite,
		harmlessOfSQLite} {
		for _, text := range texts {
			f.Add(text, true)
			f.Add(text, false)
		}
	}
	f.Fuzz(func(t *testing.T, text string, isSQLite bool) {
		d := Postgres
		if isSQLite {
			d = SQLite
		}
		l, at, semicolon := lexer{text: text, dialect: d}, 0, false
		for {
			tok := l.next()
			if tok.kind == endOfText {
				break
			}
			start := l.at - len(tok.text)
			require.GreaterOrEqual(t, start, at)
			require.NotEmpty(t, tok.text)
			require.Equal(t, text[start:l.at], tok.text)
			gap := lexer{text: text[at:start], dialect: d}
			require.Equal(t, token{}, gap.next(), "nothing but white space and comments is left out")
			at, semicolon = l.at, tok.isSymbol(';')
		}
		refused := Inspect(d, text).Control != nil
		if semicolon && !refused && !strings.Contains(strings.ToUpper(text), "CREATE") {
			require.Error(t, Inspect(d, text[:at]+"COMMIT").Control)
		}
	})
}
