-- +goose Up
-- One row per (principal, key): see the package core for what the columns mean. Migrations only ever add: two
-- releases of an app share these tables during a deployment.
CREATE TABLE IF NOT EXISTS idempotency_record (
    id              bytea       NOT NULL PRIMARY KEY,
    scope           bytea       NOT NULL,
    owner           bytea       NOT NULL,
    fence           bigint      NOT NULL,
    state           smallint    NOT NULL, -- 1 running, 2 completed, 3 unknown, 4 tombstone, 5 free
    recovery        smallint    NOT NULL, -- 1 Rollback, 2 Resume, 3 Park
    method          text        NOT NULL,
    route           text        NOT NULL,
    hash_version    smallint    NOT NULL,
    command_hash    bytea       NOT NULL,
    created_at      timestamptz NOT NULL,
    lease_until     timestamptz NOT NULL,
    deadline_at     timestamptz NOT NULL,
    expires_at      timestamptz,          -- end of retention
    purge_at        timestamptz,          -- end of the tombstone
    status          smallint    NOT NULL DEFAULT 0,
    partial         boolean     NOT NULL DEFAULT false,
    answer_encoding smallint    NOT NULL DEFAULT 1, -- 1 plain; room for sealed answers
    headers         bytea,
    body            bytea
);

-- What a sweep looks for.
CREATE INDEX IF NOT EXISTS idempotency_record_expires ON idempotency_record (expires_at) WHERE state = 2;
CREATE INDEX IF NOT EXISTS idempotency_record_purge ON idempotency_record (purge_at) WHERE state IN (4, 5);
-- What operators and reconcilers list.
CREATE INDEX IF NOT EXISTS idempotency_record_open ON idempotency_record (created_at, id) WHERE state IN (1, 3);

-- The history of settlements: rows are only ever appended.
CREATE TABLE IF NOT EXISTS idempotency_settlement (
    seq          bigint      NOT NULL PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    record_id    bytea       NOT NULL,
    settled_at   timestamptz NOT NULL,
    settled_by   text        NOT NULL,
    reason       text        NOT NULL,
    before_fence bigint      NOT NULL,
    before_state smallint    NOT NULL,
    after_fence  bigint      NOT NULL,
    after_state  smallint    NOT NULL,
    after_status smallint    NOT NULL
);
CREATE INDEX IF NOT EXISTS idempotency_settlement_record ON idempotency_settlement (record_id);
