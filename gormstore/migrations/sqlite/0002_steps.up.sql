-- +goose Up
CREATE TABLE IF NOT EXISTS idempotency_step (
    record_id   BLOB    NOT NULL,
    seq         INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    kind        INTEGER NOT NULL, -- 1 database, 2 provider
    state       INTEGER NOT NULL, -- 1 started, 2 finished
    fence       INTEGER NOT NULL, -- of the attempt that started it first
    started_at  INTEGER NOT NULL,
    encoding    INTEGER NOT NULL DEFAULT 1, -- of the result: 1 plain
    result      BLOB,
    PRIMARY KEY (record_id, seq)
);
