-- +goose Up
-- What a cap on a principal's open records counts (core.Policy.MaxOpen).
CREATE INDEX IF NOT EXISTS idempotency_record_open_scope ON idempotency_record (scope) WHERE state IN (1, 3);
