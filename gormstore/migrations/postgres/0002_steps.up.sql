-- +goose Up
-- The steps of Resume attempts.
CREATE TABLE IF NOT EXISTS idempotency_step (
    record_id   bytea       NOT NULL,
    seq         integer     NOT NULL,
    name        text        NOT NULL,
    kind        smallint    NOT NULL, -- 1 database, 2 provider
    state       smallint    NOT NULL, -- 1 started, 2 finished
    fence       bigint      NOT NULL, -- of the attempt that started it first
    started_at  timestamptz NOT NULL,
    encoding    smallint    NOT NULL DEFAULT 1, -- of the result: 1 plain
    result      bytea,
    PRIMARY KEY (record_id, seq)
);
