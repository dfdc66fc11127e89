package postgres

const uniqueIndexes = `SELECT concat_ws(' ', CASE WHEN NOT i.indisvalid THEN 'invalid' END,
		CASE WHEN i.indpred IS NOT NULL THEN 'partial' END, CASE WHEN NOT i.indimmediate THEN 'deferrable' END,
		CASE WHEN i.indexprs IS NOT NULL THEN 'over-expressions' END) || ':' ||
	COALESCE((SELECT string_agg(a.attname || CASE WHEN a.attnotnull THEN '' ELSE '?' END ||
			CASE WHEN a.attgenerated <> '' THEN '!is generated' WHEN a.attidentity <> '' THEN '!comes from a sequence'
			WHEN a.atthasdef OR t.typdefault IS NOT NULL THEN '!has a default'
			WHEN t.typcategory IN ('D', 'T') THEN '!is a time' ELSE '' END, ',')
		FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
		WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])), '')
FROM pg_index i WHERE i.indrelid = to_regclass($1) AND i.indisunique`

// earlyTriggers: INSERT; not AFTER, FOR EACH ROW.
const earlyTriggers = `SELECT tgname FROM pg_trigger WHERE tgrelid = to_regclass($1) AND NOT tgisinternal
	AND tgtype & 4 <> 0 AND tgtype & 3 <> 1`
