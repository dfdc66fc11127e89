package sqlite

const uniqueIndexes = `SELECT CASE WHEN l.partial THEN 'partial'
		WHEN EXISTS (SELECT 1 FROM pragma_index_info(l.name) x WHERE x.name IS NULL) THEN 'over-expressions'
		ELSE '' END || ':' ||
	COALESCE((SELECT group_concat(x.name || CASE WHEN t."notnull" THEN '' ELSE '?' END ||
			CASE WHEN t.hidden IN (2, 3) THEN '!is generated' WHEN t.dflt_value IS NOT NULL THEN '!has a default'
			WHEN t.type LIKE '%date%' OR t.type LIKE '%time%' THEN '!is a time'
			WHEN t.pk AND upper(t.type) = 'INTEGER' AND (SELECT max(k.pk) FROM pragma_table_xinfo(?1) k) = 1
				THEN '!comes from a sequence' ELSE '' END, ',')
		FROM pragma_index_info(l.name) x JOIN pragma_table_xinfo(?1) t ON t.name = x.name), '')
FROM pragma_index_list(?1) l WHERE l."unique"`

// earlyTriggers: SQLite has only their text, so each one of an INSERT counts.
const earlyTriggers = `SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE
	AND sql LIKE '%INSERT%'`
