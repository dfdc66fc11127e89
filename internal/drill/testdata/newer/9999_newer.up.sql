-- +goose Up
-- A column that the older release does not know.
SET LOCAL lock_timeout = '1s';
ALTER TABLE idempotency_record ADD COLUMN IF NOT EXISTS newer text NOT NULL DEFAULT '';
