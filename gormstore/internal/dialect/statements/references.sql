-- The references of operations: see core.Reference. $1 is the record's id, unless a comment says otherwise.

-- name: refer
-- $2 name, $3 value, $4 realm, $5 whether the record need not be there, because its transaction is still open, $6 how many
-- references it can have.
INSERT INTO :"schema".idempotency_reference (record_id, name, value, realm, referred_at)
SELECT $1::bytea, $2::text, $3::text, $4::bytea, :now
WHERE ($5::boolean OR EXISTS (SELECT 1 FROM :"schema".idempotency_record r WHERE r.id = $1::bytea))
	AND (SELECT count(*) FROM :"schema".idempotency_reference o WHERE o.record_id = $1::bytea) < $6::bigint
ON CONFLICT (record_id, name, value) DO NOTHING;

-- name: referencesOf
-- $1 is a JSON array of ids in hexadecimal digits.
SELECT r.record_id, r.name, r.value FROM :"schema".idempotency_reference r
WHERE r.record_id :ids($1) ORDER BY r.record_id, r.referred_at, r.name, r.value;

-- name: referred
-- The last $3 references whose value is $1 and whose realm begins with $2.
SELECT r.record_id FROM :"schema".idempotency_reference r
WHERE r.value = $1 AND :within($2::bytea) ORDER BY r.referred_at DESC, r.record_id DESC LIMIT $3;

-- name: dropReferences
DELETE FROM :"schema".idempotency_reference AS f WHERE f.record_id = $1;
