-- +goose Up
-- The SQLite form: points in time are microseconds since 1970.
CREATE TABLE IF NOT EXISTS idempotency_reference (
    record_id   BLOB    NOT NULL,
    name        TEXT    NOT NULL,
    value       TEXT    NOT NULL,
    realm       BLOB    NOT NULL, -- operators find those of their own realm
    referred_at INTEGER NOT NULL,
    PRIMARY KEY (record_id, name, value)
);

CREATE INDEX IF NOT EXISTS idempotency_reference_value ON idempotency_reference (value, referred_at);

CREATE INDEX IF NOT EXISTS idempotency_settlement_lately ON idempotency_settlement (settled_at);
