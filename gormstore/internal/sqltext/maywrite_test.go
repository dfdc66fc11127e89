package sqltext

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// CONTRACT X-6
func TestMayWrite(t *testing.T) {
	for _, d := range []Dialect{Postgres, SQLite} {
		for _, text := range []string{
			"", "SELECT 1", "select count(*), sum(amount), max(now()) from effects", "(SELECT 1) UNION (SELECT 2)",
			"SELECT lower(name) FROM effects WHERE id IN (1, 2) AND EXISTS (SELECT 1) OR NOT (true)", "VALUES (1), (2)",
			"SELECT CAST(x AS numeric(10, 2)), EXTRACT(year FROM now()), x::varchar(3) FROM effects AS e (x, y)",
			"WITH a (n) AS (SELECT 1), b (n) AS NOT MATERIALIZED (SELECT 2), c AS MATERIALIZED ((SELECT 3)) SELECT * FROM a JOIN b USING (n)",
			"WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 9) SELECT n FROM c",
			"SELECT row_number() OVER (PARTITION BY (name) ORDER BY (id)), count(*) FILTER (WHERE id > 1) OVER (ORDER BY id) FROM effects",
			"SELECT name FROM effects GROUP BY (name) HAVING (count(*) > 1) ORDER BY (name) LIMIT (1) OFFSET (0)",
			"SELECT pg_catalog.count(*) FROM effects", "SELECT id FROM effects FOR UPDATE SKIP LOCKED", "SELECT id FROM effects FOR NO KEY UPDATE",
			"SELECT 'book(7)', \"book(7)\" FROM effects -- book(7)", "SELECT 'DELETE FROM effects'", `SELECT "update" FROM effects`,
			"SELECT coalesce(json_build_object('a', 1)->>'a', '') FROM effects", "SELECT CASE WHEN (a) THEN (b) ELSE (c) END",
			"SELECT sum(a) FROM (VALUES (1)) AS t (a)", "SELECT DISTINCT ON (a) count(b) FROM c",
			"SELECT a FROM b WHERE a = ANY (ARRAY[1]) AND b BETWEEN (1) AND (2) AND c LIKE ('x')", "EXPLAIN SELECT 1",
			"SELECT a FROM b WHERE NOT a LIKE ('x') OR a NOT LIKE ('y') AND ? LIKE ('z') AND (a) LIKE (b) AND CASE WHEN a THEN b END LIKE (c)",
			"SELECT 1 FROM a LEFT JOIN (SELECT 1) b ON true JOIN (SELECT 2) c ON a IS (b)", "WITH a AS (SELECT 1), b AS (VALUES (1)) SELECT 1",
			"SELECT created FROM effects", "SELECT a FROM b GROUP BY GROUPING SETS ((a), (b))", "SELECT 1; SELECT 2;",
		} {
			require.Empty(t, MayWrite(d, text), "%v: %s", d, text)
		}
		for _, text := range []string{
			"SELECT book(7)", "SELECT public.book(7)", `SELECT "book"(7)`, `SELECT "public" . "book" (7)`, "SELECT 1, book(7)",
			"SELECT book /* 7 */ (7)", "SELECT book\n(7)", "SELECT * FROM book(7)", "SELECT * FROM effects, book(7) AS (a int)",
			"SELECT * FROM effects JOIN book(7) b ON true", "SELECT 1 WHERE book(7) > 0", "SELECT 1 ORDER BY book(7)",
			"SELECT DISTINCT ON (a) book(7)", "SELECT lower(book(7))", "WITH a AS (SELECT book(7)) SELECT 1", "SELECT public.lower('X')",
			`SELECT "LOWER"('X')`, `SELECT "in"(7)`, "SELECT over(7)", "SELECT filter(7)", "SELECT by(7)", "SELECT sets(7)",
			"SELECT set_config('role', 'x', false)", "SELECT nextval('s')", "SELECT pg_advisory_lock(1)", "SELECT pg_sleep(1)",
			"EXPLAIN ANALYZE SELECT book(7)", "VALUES (book(7))", "SELECT 1; DROP TABLE effects", "SELECT 1; SELECT book(7)",
			"WITH a AS (INSERT INTO b VALUES (1) RETURNING 1) SELECT 1", "SELECT 1 INTO b", "DO $$ $$", "CALL book(7)", "TRUNCATE a",
			"EXPLAIN ANALYZE DELETE FROM effects", "EXPLAIN ANALYZE EXECUTE p", "VACUUM", "PRAGMA synchronous = off", "EXECUTE p",
			"SELECT 1 FROM a, b (c) AS (d int)", "SELECT * FROM a, book(7) AS (values int)",
			"SELECT shop.order(7)", "SELECT shop.exists(7)", "SELECT shop . match (7)", "SELECT 1, shop.values(7)",
			"SELECT match(7)", "SELECT like(7)", "SELECT ilike(7)", "SELECT glob(7)", "SELECT is(7)", "SELECT join(7)", "SELECT similar(7)",
			"SELECT 1 WHERE NOT match(7)", "SELECT 1 + match(7)", "SELECT 1 ORDER BY match(7)",
		} {
			require.NotEmpty(t, MayWrite(d, text), "%v: %s", d, text)
		}
	}
}

// CONTRACT X-6
func TestLocks(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT id FROM effects WHERE id = $1 FOR UPDATE":                             "FOR UPDATE",
		"SELECT 1; select id from effects for update skip locked":                     "FOR UPDATE",
		"SELECT id FROM effects FOR SHARE OF effects":                                 "FOR SHARE",
		"SELECT id FROM effects FOR /* x */ NO KEY UPDATE NOWAIT":                     "FOR NO KEY UPDATE",
		"WITH a AS (SELECT id FROM effects FOR KEY SHARE) SELECT * FROM a":            "FOR KEY SHARE",
		"SELECT substring(name FROM 1 FOR key), 'FOR UPDATE' FROM effects":            "",
		"SELECT id FROM effects -- FOR UPDATE":                                        "",
		`SELECT "FOR" AS update, overlay(name PLACING 'x' FROM 1 FOR 2) FROM effects`: "",
	} {
		require.Equal(t, want, Locks(Postgres, text), text)
	}
}
