-- +goose Up
-- What this app is about to ask of others, as a client: one key per intent, kept over a restart. See Journal.
CREATE TABLE IF NOT EXISTS idempotency_intent (
    intent          text        NOT NULL PRIMARY KEY,
    idempotency_key text        NOT NULL,
    hash_version    smallint,             -- of the command that was sent; NULL before the first attempt
    command_hash    bytea,
    planned_at      timestamptz NOT NULL,
    begun_at        timestamptz,          -- just before the first attempt
    ended_at        timestamptz           -- there is a definite answer
);

CREATE INDEX IF NOT EXISTS idempotency_intent_pending ON idempotency_intent (intent) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS idempotency_intent_ended ON idempotency_intent (ended_at) WHERE ended_at IS NOT NULL;
