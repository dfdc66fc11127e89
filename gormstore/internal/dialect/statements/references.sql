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

-- macro: reference
-- There is a reference o for which :it holds. It is looked for by the primary key, one record at a time: by the index of the
-- values, or in a join, all references of a value that is everywhere would be read. So a value is compared as o.value || ''.
(SELECT 1 FROM :"schema".idempotency_reference o WHERE :it LIMIT 1) IS NOT NULL

-- name: referred
-- Looks at the last $11 references of the value $1 that were attached at $5 or later, before $6 and before the place $7, $8, and
-- whose realm is from $9 to $10. It returns up to $12 of those that are wanted: their name is $2, or $2 is ''; their record has a
-- reference of the value $3 and the name $4, too, if $3 is not ''; it is completed, where $13 is set; and none of $1 and $2 was
-- attached to it later. It also returns the last one that it has looked at, if there may be more.
SELECT p.record_id, p.referred_at, p.wanted, p.place = $11::bigint FROM (
	SELECT q.record_id, q.referred_at, row_number() OVER (ORDER BY q.referred_at DESC, q.record_id DESC) AS place,
		($2::text = '' OR q.name = $2::text)
		AND ($3::text = '' OR :reference(o.record_id = q.record_id AND o.value || '' = $3::text AND ($4::text = '' OR o.name = $4::text)))
		AND NOT (:reference(o.record_id = q.record_id AND o.value || '' = $1::text AND ($2::text = '' OR o.name = $2::text)
			AND (o.referred_at, o.name) > (q.referred_at, q.name) AND o.referred_at < $6::bigint))
		AND (NOT $13::boolean OR (SELECT 1 FROM :"schema".idempotency_record c
			WHERE c.id = q.record_id AND c.state = 2 AND c.expires_at > :now LIMIT 1) IS NOT NULL) AS wanted
	FROM (
		SELECT r.record_id, r.referred_at, r.name FROM :"schema".idempotency_reference r
		WHERE r.value = $1::text AND r.referred_at >= $5::bigint
			AND (r.referred_at, r.record_id) < ($7::bigint, $8::bytea) AND r.realm >= $9::bytea AND r.realm <= $10::bytea
		ORDER BY r.referred_at DESC, r.record_id DESC LIMIT $11::bigint
	) q
) p
WHERE p.wanted OR p.place = $11::bigint ORDER BY p.referred_at DESC, p.record_id DESC LIMIT $12::bigint;
