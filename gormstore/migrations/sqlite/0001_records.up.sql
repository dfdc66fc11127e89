-- +goose Up
-- The SQLite form of the tables: the same columns; points in time are microseconds since 1970.
CREATE TABLE IF NOT EXISTS idempotency_record (
    id              BLOB    NOT NULL PRIMARY KEY,
    scope           BLOB    NOT NULL,
    owner           BLOB    NOT NULL,
    fence           INTEGER NOT NULL,
    state           INTEGER NOT NULL, -- 1 running, 2 completed, 3 unknown, 4 tombstone, 5 free
    recovery        INTEGER NOT NULL, -- 1 Rollback, 2 Resume, 3 Park
    method          TEXT    NOT NULL,
    route           TEXT    NOT NULL,
    hash_version    INTEGER NOT NULL,
    command_hash    BLOB    NOT NULL,
    created_at      INTEGER NOT NULL,
    lease_until     INTEGER NOT NULL,
    deadline_at     INTEGER NOT NULL,
    expires_at      INTEGER,          -- end of retention
    purge_at        INTEGER,          -- end of the tombstone
    status          INTEGER NOT NULL DEFAULT 0,
    partial         INTEGER NOT NULL DEFAULT 0,
    answer_encoding INTEGER NOT NULL DEFAULT 1, -- 1 plain; room for sealed answers
    headers         BLOB,
    body            BLOB
);

CREATE INDEX IF NOT EXISTS idempotency_record_expires ON idempotency_record (expires_at) WHERE state = 2;
CREATE INDEX IF NOT EXISTS idempotency_record_purge ON idempotency_record (purge_at) WHERE state IN (4, 5);
CREATE INDEX IF NOT EXISTS idempotency_record_open ON idempotency_record (created_at, id) WHERE state IN (1, 3);

CREATE TABLE IF NOT EXISTS idempotency_settlement (
    seq          INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    record_id    BLOB    NOT NULL,
    settled_at   INTEGER NOT NULL,
    settled_by   TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    before_fence INTEGER NOT NULL,
    before_state INTEGER NOT NULL,
    after_fence  INTEGER NOT NULL,
    after_state  INTEGER NOT NULL,
    after_status INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS idempotency_settlement_record ON idempotency_settlement (record_id);
