-- +goose Up
-- The SQLite form of the tables: the same columns; points in time are microseconds since 1970.
CREATE TABLE IF NOT EXISTS idempotency_record (
    fence           INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    deadline_at     INTEGER NOT NULL,
    attempts        INTEGER NOT NULL DEFAULT 1, -- of this operation: with Resume there may be several
    recovery        INTEGER NOT NULL, -- 1 Rollback, 2 Resume, 3 Park
    hash_version    INTEGER NOT NULL,
    id              BLOB    NOT NULL PRIMARY KEY,
    scope           BLOB    NOT NULL,
    realm           BLOB    NOT NULL, -- operators see the records of their own realm
    command_hash    BLOB    NOT NULL,
    method          TEXT    NOT NULL,
    route           TEXT    NOT NULL,
    timed           INTEGER NOT NULL DEFAULT 0, -- its key is a timed one, whose time the id begins with
    traceparent     TEXT    NOT NULL DEFAULT '' CHECK (length(traceparent) <= 55), -- of the last attempt: W3C Trace Context
    ends            BLOB,             -- how attempts have ended that did not end the operation; NULL: none has
    owner           BLOB    NOT NULL,
    lease_until     INTEGER NOT NULL,
    state           INTEGER NOT NULL, -- 1 running, 2 completed, 3 unknown, 4 tombstone, 5 free
    status          INTEGER NOT NULL DEFAULT 0,
    answer_encoding INTEGER NOT NULL DEFAULT 1, -- 1 plain, 2 sealed: see gormstore.Seal
    partial         INTEGER NOT NULL DEFAULT 0,
    expires_at      INTEGER,          -- end of retention
    purge_at        INTEGER,          -- end of the tombstone
    due_at          INTEGER,          -- when the sweep looks at the record; NULL: it is open, and never swept
    headers         BLOB,
    body            BLOB
);

CREATE INDEX IF NOT EXISTS idempotency_record_due ON idempotency_record (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS idempotency_record_open ON idempotency_record (created_at, id) WHERE due_at IS NULL;
CREATE INDEX IF NOT EXISTS idempotency_record_open_scope ON idempotency_record (scope, created_at, id) WHERE due_at IS NULL;

CREATE TABLE IF NOT EXISTS idempotency_settlement (
    record_id    BLOB    NOT NULL,
    settled_at   INTEGER NOT NULL,
    settled_by   TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    undone       TEXT    NOT NULL DEFAULT '', -- what undid the steps of an operation that was not applied
    before_fence INTEGER NOT NULL,
    before_state INTEGER NOT NULL,
    after_fence  INTEGER NOT NULL,
    after_state  INTEGER NOT NULL,
    after_status INTEGER NOT NULL,
    PRIMARY KEY (record_id, settled_at, after_fence)
);

CREATE TABLE IF NOT EXISTS idempotency_step (
    record_id   BLOB    NOT NULL,
    name        TEXT    NOT NULL,
    kind        INTEGER NOT NULL, -- 1 database, 2 provider
    state       INTEGER NOT NULL, -- 1 started, 2 finished
    fence       INTEGER NOT NULL, -- of the attempt that started the step first; of a finished database step, of the attempt that ran it
    started_at  INTEGER NOT NULL,
    finished_at INTEGER, -- when its result was recorded
    encoding    INTEGER NOT NULL DEFAULT 1, -- of the result: 1 plain, 2 sealed
    result      BLOB,
    derived     BLOB, -- the keys of its calls and events, 32 bytes each
    PRIMARY KEY (record_id, name)
);

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

CREATE TABLE IF NOT EXISTS processed_message (
    consumer_group  TEXT    NOT NULL,
    source          TEXT    NOT NULL,
    message_id      TEXT    NOT NULL,
    payload_hash    BLOB    NOT NULL, -- SHA-256
    processed_at    INTEGER NOT NULL,
    published_at    INTEGER,          -- by the publisher's clock
    expires_at      INTEGER NOT NULL, -- a sweep may delete it after that
    PRIMARY KEY (consumer_group, source, message_id)
);

CREATE INDEX IF NOT EXISTS processed_message_expires ON processed_message (expires_at);

CREATE TABLE IF NOT EXISTS processed_message_floor (
    consumer_group  TEXT    NOT NULL,
    source          TEXT    NOT NULL,
    published_at    INTEGER NOT NULL,
    PRIMARY KEY (consumer_group, source)
);

CREATE TABLE IF NOT EXISTS idempotency_intent (
    intent          TEXT    NOT NULL PRIMARY KEY,
    idempotency_key TEXT    NOT NULL,
    hash_version    INTEGER,          -- of the command that was sent; NULL before the first attempt
    command_hash    BLOB,
    planned_at      INTEGER NOT NULL,
    begun_at        INTEGER,          -- just before the first attempt
    begun_by        BLOB,             -- the one caller that has begun; empty: several
    ended_at        INTEGER           -- there is a definite answer
);

CREATE INDEX IF NOT EXISTS idempotency_intent_pending ON idempotency_intent (intent) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS idempotency_intent_ended ON idempotency_intent (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS idempotency_setting (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS idempotency_reference (
    record_id   BLOB    NOT NULL,
    name        TEXT    NOT NULL,
    value       TEXT    NOT NULL,
    realm       BLOB    NOT NULL, -- operators find those of their own realm
    referred_at INTEGER NOT NULL,
    PRIMARY KEY (record_id, name, value)
);

CREATE INDEX IF NOT EXISTS idempotency_reference_value ON idempotency_reference (value, referred_at, record_id, realm);

CREATE TABLE IF NOT EXISTS idempotency_note (
    record_id  BLOB    NOT NULL,
    token      BLOB    NOT NULL, -- of the form that was sent: sent twice, it is one note
    written_at INTEGER NOT NULL,
    written_by TEXT    NOT NULL,
    body       TEXT    NOT NULL,
    kind       INTEGER NOT NULL DEFAULT 0, -- 0 note; of a proposal: 1 open, 2 carried out, 3 withdrawn; 4 who has withdrawn it
    fence      INTEGER NOT NULL DEFAULT 0, -- of the record that a proposal or a withdrawal is about
    encoding   INTEGER NOT NULL DEFAULT 1, -- of the decision: 1 plain
    decision   BLOB,                       -- what a proposal says
    PRIMARY KEY (record_id, token)
);

CREATE UNIQUE INDEX IF NOT EXISTS idempotency_note_proposal ON idempotency_note (record_id, fence) WHERE kind = 1;

CREATE INDEX IF NOT EXISTS idempotency_settlement_lately ON idempotency_settlement (settled_at);

CREATE VIEW IF NOT EXISTS idempotency_operation AS
SELECT lower(hex(r.id)) AS operation, r.method, r.route,
    CASE r.recovery WHEN 1 THEN 'Rollback' WHEN 2 THEN 'Resume' ELSE 'Park' END AS recovery,
    CASE
        WHEN r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= c.now AND NOT r.timed THEN 'free'
        WHEN r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= c.now) THEN 'unknown'
        WHEN r.state = 1 AND r.lease_until <= c.now THEN 'half done'
        WHEN r.state = 1 THEN 'running'
        WHEN r.state = 2 AND r.expires_at > c.now THEN 'completed'
        ELSE 'expired'
    END AS state,
    r.due_at IS NULL AS is_open, r.status, r.attempts, r.fence,
    strftime('%Y-%m-%d %H:%M:%f', r.created_at / 1000000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%d %H:%M:%f', r.lease_until / 1000000.0, 'unixepoch') AS lease_until,
    strftime('%Y-%m-%d %H:%M:%f', r.deadline_at / 1000000.0, 'unixepoch') AS deadline_at,
    strftime('%Y-%m-%d %H:%M:%f', r.expires_at / 1000000.0, 'unixepoch') AS expires_at,
    strftime('%Y-%m-%d %H:%M:%f', r.purge_at / 1000000.0, 'unixepoch') AS purge_at
FROM idempotency_record r, (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AS now) c;

CREATE VIEW IF NOT EXISTS idempotency_operation_step AS
SELECT lower(hex(s.record_id)) AS operation, s.name,
    CASE s.kind WHEN 1 THEN 'rows' ELSE 'provider' END AS kind,
    CASE s.state WHEN 1 THEN 'started' ELSE 'finished' END AS state,
    strftime('%Y-%m-%d %H:%M:%f', s.started_at / 1000000.0, 'unixepoch') AS started_at,
    strftime('%Y-%m-%d %H:%M:%f', s.finished_at / 1000000.0, 'unixepoch') AS finished_at
FROM idempotency_step s;
