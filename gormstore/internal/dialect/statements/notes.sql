-- What operators write on open operations. $1 is the record's id, unless a comment says otherwise.

-- name: annotate
-- $2 the form's token, $3 who, $4 the text. Only an open record takes it.
INSERT INTO :"schema".idempotency_note (record_id, token, written_at, written_by, body)
SELECT r.id, $2::bytea, :now, $3::text, $4::text FROM :"schema".idempotency_record r WHERE r.id = $1 AND r.state IN (1, 3)
ON CONFLICT (record_id, token) DO NOTHING;

-- name: notesOf
-- $1 is a JSON array of ids in hexadecimal digits.
SELECT n.record_id, n.token, n.written_at, n.written_by, n.body FROM :"schema".idempotency_note n
WHERE n.record_id :ids($1) ORDER BY n.record_id, n.written_at, n.token;

-- name: blankNotes
UPDATE :"schema".idempotency_note AS n SET body = '' WHERE n.record_id = $1 AND n.body <> '';

-- name: blankNotesOf
-- $1 is a JSON array of ids in hexadecimal digits.
UPDATE :"schema".idempotency_note AS n SET body = '' WHERE n.record_id :ids($1) AND n.body <> '';
