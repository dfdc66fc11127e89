-- What an attempt writes to its record, as in ../../postgres/statements/attempts.sql, where it is explained.

-- name: complete
UPDATE main.idempotency_record AS r SET :answered WHERE :owned AND r.state IN (1, 3);
