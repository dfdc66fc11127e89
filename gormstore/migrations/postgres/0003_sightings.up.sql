-- +goose Up
-- Commands that have come by, for routes in shadow and for the detection of commands under a new key. Nothing of it is
-- of any weight for claims.
CREATE TABLE IF NOT EXISTS idempotency_sighting (
    id              bytea       NOT NULL PRIMARY KEY, -- of the record its key stands for; 16 random bytes without a key
    scope           bytea       NOT NULL,
    hash_version    smallint    NOT NULL,
    command_hash    bytea       NOT NULL,
    seen_at         timestamptz NOT NULL,
    purge_at        timestamptz NOT NULL
);

-- The same command of the same principal, under which keys and when: the index alone answers it.
CREATE INDEX IF NOT EXISTS idempotency_sighting_command ON idempotency_sighting (scope, command_hash, seen_at, id);
CREATE INDEX IF NOT EXISTS idempotency_sighting_purge ON idempotency_sighting (purge_at);
