-- The references of operations, as in ../postgres/references.sql, where the statements are explained.

-- name: refer
INSERT INTO main.idempotency_reference (record_id, name, value, realm, referred_at)
SELECT ?1, ?2, ?3, ?4, :now
WHERE (?5 OR EXISTS (SELECT 1 FROM main.idempotency_record r WHERE r.id = ?1))
	AND (SELECT count(*) FROM main.idempotency_reference o WHERE o.record_id = ?1) < ?6
ON CONFLICT (record_id, name, value) DO NOTHING;

-- name: referencesOf
SELECT f.record_id, f.name, f.value FROM main.idempotency_reference f
WHERE f.record_id IN (SELECT unhex(j.value) FROM json_each(?1) j)
ORDER BY f.record_id, f.referred_at, f.name, f.value;

-- name: referred
SELECT f.record_id FROM main.idempotency_reference f
WHERE f.value = ?1 AND substr(f.realm, 1, length(?2)) = ?2
ORDER BY f.referred_at DESC, f.record_id DESC LIMIT ?3;

-- name: dropReferences
DELETE FROM main.idempotency_reference AS f WHERE f.record_id = ?1;
