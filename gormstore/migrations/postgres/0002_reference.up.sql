-- +goose Up
-- What people outside know an operation by: see core.Reference. A row is deleted when its record becomes a tombstone, is
-- erased, or is dropped. There is no foreign key: in a transaction the reference is written before its record.
CREATE TABLE IF NOT EXISTS idempotency_reference (
    record_id   bytea       NOT NULL,
    name        text        NOT NULL,
    value       text        NOT NULL,
    realm       bytea       NOT NULL, -- operators find those of their own realm
    referred_at timestamptz NOT NULL,
    PRIMARY KEY (record_id, name, value)
);

CREATE INDEX IF NOT EXISTS idempotency_reference_value ON idempotency_reference (value, referred_at);

-- Operators look at the last settlements.
CREATE INDEX IF NOT EXISTS idempotency_settlement_lately ON idempotency_settlement (settled_at);
