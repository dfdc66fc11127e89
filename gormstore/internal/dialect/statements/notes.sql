-- What operators write on open operations. $1 is the record's id, unless a comment says otherwise.

-- name: annotate
-- $2 the form's token, $3 who, $4 the text, $5 the kind, $6 the fence that it is about unless it is a plain note, $7 the decision
-- and $8 its encoding, $9 and $10 the clock's window. Only an open record takes it; a proposal only one that can be settled, and
-- has no other open one about this fence.
INSERT INTO :"schema".idempotency_note (record_id, token, written_at, written_by, body, kind, fence, decision, encoding)
SELECT r.id, $2::bytea, :now, $3::text, $4::text, $5::smallint, $6::bigint, $7::bytea, $8::smallint
FROM :"schema".idempotency_record r
WHERE r.id = $1 AND r.state IN (1, 3) AND ($5::smallint = 0 OR r.fence = $6::bigint) AND ($5::smallint <> 1 OR (:unknown)
	AND r.lease_until <= :now AND r.deadline_at <= :now AND :now BETWEEN $9::bigint AND $10::bigint)
ON CONFLICT DO NOTHING;

-- name: turnProposal
-- Judges who ends a proposal: of all who change its row at once, one does. $2 its token, $3 its fence, $4 the kind that it has,
-- $5 the one that it gets, $6 a name that it must not be of.
UPDATE :"schema".idempotency_note AS n SET kind = $5::smallint
WHERE n.record_id = $1 AND n.token = $2 AND n.fence = $3 AND n.kind = $4::smallint AND n.written_by <> $6::text;

-- name: notesOf
-- $1 is a JSON array of ids in hexadecimal digits.
SELECT n.record_id, n.token, n.written_at, n.written_by, n.body, n.kind, n.fence, n.decision, n.encoding
FROM :"schema".idempotency_note n WHERE n.record_id :ids($1) ORDER BY n.record_id, n.written_at, n.token;

-- name: blankNotesOf
-- $1 is a JSON array of ids in hexadecimal digits.
UPDATE :"schema".idempotency_note AS n SET body = '', decision = NULL
WHERE n.record_id :ids($1) AND (n.body <> '' OR n.decision IS NOT NULL);
