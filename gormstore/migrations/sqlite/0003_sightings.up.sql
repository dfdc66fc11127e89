-- +goose Up
CREATE TABLE IF NOT EXISTS idempotency_sighting (
    id              BLOB    NOT NULL PRIMARY KEY, -- of the record its key stands for; 16 random bytes without a key
    scope           BLOB    NOT NULL,
    hash_version    INTEGER NOT NULL,
    command_hash    BLOB    NOT NULL,
    seen_at         INTEGER NOT NULL,
    purge_at        INTEGER NOT NULL
);

CREATE INDEX IF NOT EXISTS idempotency_sighting_command ON idempotency_sighting (scope, command_hash, seen_at, id);
CREATE INDEX IF NOT EXISTS idempotency_sighting_purge ON idempotency_sighting (purge_at);
