-- +goose Up
-- A table that others use is waited for a second: whoever comes behind this would wait, too.
SET LOCAL lock_timeout = '1s';

-- Points in time are microseconds since 1970 by the database's clock. The views at the end show them as timestamps.
--
-- One row per (principal, key): see the package core for what the columns mean. Migrations only add: two
-- releases of an app share these tables during a deployment.
--
-- A record is open, or it is due at some time: so the answer of a running record changes an indexed column. What is open and
-- what is due have a partial index each. Their condition is that of due_at alone: a statement by id whose condition implied
-- that of an index would be planned over that index, which an answer a second leaves full of dead entries. Each page keeps
-- three tenths of its room for the answers of the records that are on it. The columns that an answer changes are the last ones:
-- PostgreSQL does not write what the old row and the new one have in common at their beginning to its log.
CREATE TABLE IF NOT EXISTS idempotency_record (
    fence           bigint      NOT NULL,
    created_at      bigint      NOT NULL,
    deadline_at     bigint      NOT NULL,
    attempts        integer     NOT NULL DEFAULT 1, -- of this operation: with Resume there may be several
    recovery        smallint    NOT NULL, -- 1 Rollback, 2 Resume, 3 Park
    hash_version    smallint    NOT NULL,
    id              bytea       NOT NULL PRIMARY KEY,
    scope           bytea       NOT NULL,
    realm           bytea       NOT NULL, -- operators see the records of their own realm
    command_hash    bytea       NOT NULL,
    method          text        NOT NULL,
    route           text        NOT NULL,
    timed           boolean     NOT NULL DEFAULT false, -- its key is a timed one, whose time the id begins with
    traceparent     varchar(55) NOT NULL DEFAULT '', -- of the last attempt: W3C Trace Context
    ends            bytea,                -- how attempts have ended that did not end the operation; NULL: none has
    owner           bytea       NOT NULL,
    lease_until     bigint      NOT NULL,
    state           smallint    NOT NULL, -- 1 running, 2 completed, 3 unknown, 4 tombstone, 5 free
    status          smallint    NOT NULL DEFAULT 0,
    answer_encoding smallint    NOT NULL DEFAULT 1, -- 1 plain, 2 sealed: see gormstore.Seal
    partial         boolean     NOT NULL DEFAULT false,
    expires_at      bigint,               -- end of retention
    purge_at        bigint,               -- end of the tombstone
    due_at          bigint,               -- when the sweep looks at the record; NULL: it is open, and never swept
    headers         bytea,
    body            bytea
) WITH (fillfactor = 70);

-- What the sweep looks at.
CREATE INDEX IF NOT EXISTS idempotency_record_due ON idempotency_record (due_at) WHERE due_at IS NOT NULL;
-- Operators and reconcilers list these.
CREATE INDEX IF NOT EXISTS idempotency_record_open ON idempotency_record (created_at, id) WHERE due_at IS NULL;
-- The cap on a principal's open records counts these (core.Policy.MaxOpen), and a list of one principal's is a page of them.
CREATE INDEX IF NOT EXISTS idempotency_record_open_scope ON idempotency_record (scope, created_at, id) WHERE due_at IS NULL;

-- The history of settlements: rows are only appended. There is no sequence: it could lag after a move to another cluster.
CREATE TABLE IF NOT EXISTS idempotency_settlement (
    record_id    bytea       NOT NULL,
    settled_at   bigint      NOT NULL,
    settled_by   text        NOT NULL,
    reason       text        NOT NULL,
    undone       text        NOT NULL DEFAULT '', -- what undid the steps of an operation that was not applied
    before_fence bigint      NOT NULL,
    before_state smallint    NOT NULL,
    after_fence  bigint      NOT NULL,
    after_state  smallint    NOT NULL,
    after_status smallint    NOT NULL,
    PRIMARY KEY (record_id, settled_at, after_fence)
);

-- The steps of Resume attempts.
CREATE TABLE IF NOT EXISTS idempotency_step (
    record_id   bytea       NOT NULL,
    name        text        NOT NULL,
    kind        smallint    NOT NULL, -- 1 database, 2 provider
    state       smallint    NOT NULL, -- 1 started, 2 finished
    fence       bigint      NOT NULL, -- of the attempt that started the step first; of a finished database step, of the attempt that ran it
    started_at  bigint      NOT NULL,
    finished_at bigint,      -- when its result was recorded
    encoding    smallint    NOT NULL DEFAULT 1, -- of the result: 1 plain, 2 sealed
    result      bytea,
    derived     bytea, -- the keys of its calls and events, 32 bytes each
    PRIMARY KEY (record_id, name)
);

-- Commands that have come before, for routes in shadow and for commands that come again under a new key. No claim depends
-- on them.
CREATE TABLE IF NOT EXISTS idempotency_sighting (
    id              bytea       NOT NULL PRIMARY KEY, -- of the record its key stands for; 16 random bytes without a key
    scope           bytea       NOT NULL,
    hash_version    smallint    NOT NULL,
    command_hash    bytea       NOT NULL,
    seen_at         bigint      NOT NULL,
    purge_at        bigint      NOT NULL
);

-- Under which keys, and when, the same command of the same principal has come: this index alone answers that.
CREATE INDEX IF NOT EXISTS idempotency_sighting_command ON idempotency_sighting (scope, command_hash, seen_at, id);
CREATE INDEX IF NOT EXISTS idempotency_sighting_purge ON idempotency_sighting (purge_at);

-- The markers of messages that a consumer has processed: each commits together with the consumer's rows.
CREATE TABLE IF NOT EXISTS processed_message (
    consumer_group  text        NOT NULL,
    source          text        NOT NULL,
    message_id      text        NOT NULL,
    payload_hash    bytea       NOT NULL, -- SHA-256
    processed_at    bigint      NOT NULL,
    published_at    bigint,               -- by the publisher's clock
    expires_at      bigint      NOT NULL, -- a sweep may delete it after that
    PRIMARY KEY (consumer_group, source, message_id)
);

CREATE INDEX IF NOT EXISTS processed_message_expires ON processed_message (expires_at);

-- What is too old for a group: messages that were published then or before. Their markers may have been deleted, or they
-- have been refused. The floor only rises.
CREATE TABLE IF NOT EXISTS processed_message_floor (
    consumer_group  text        NOT NULL,
    source          text        NOT NULL,
    published_at    bigint      NOT NULL,
    PRIMARY KEY (consumer_group, source)
);

-- What this app asks of other services, as a client: one key per intent, which survives a restart. See the
-- package gormstore/journal.
CREATE TABLE IF NOT EXISTS idempotency_intent (
    intent          text        NOT NULL PRIMARY KEY,
    idempotency_key text        NOT NULL,
    hash_version    smallint,             -- of the command that was sent; NULL before the first attempt
    command_hash    bytea,
    planned_at      bigint      NOT NULL,
    begun_at        bigint,               -- just before the first attempt
    begun_by        bytea,                -- the one caller that has begun; empty: several
    ended_at        bigint                -- there is a definite answer
);

CREATE INDEX IF NOT EXISTS idempotency_intent_pending ON idempotency_intent (intent) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS idempotency_intent_ended ON idempotency_intent (ended_at) WHERE ended_at IS NOT NULL;

-- What all instances and releases must agree on, and what must survive a change of configuration.
CREATE TABLE IF NOT EXISTS idempotency_setting (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);

-- What people outside know an operation by: see core.Reference. A row is deleted when its record becomes a tombstone, is
-- erased, or is dropped. There is no foreign key: in a transaction the reference is written before its record.
CREATE TABLE IF NOT EXISTS idempotency_reference (
    record_id   bytea       NOT NULL,
    name        text        NOT NULL,
    value       text        NOT NULL,
    realm       bytea       NOT NULL, -- operators find those of their own realm
    referred_at bigint      NOT NULL,
    PRIMARY KEY (record_id, name, value)
);

CREATE INDEX IF NOT EXISTS idempotency_reference_value ON idempotency_reference (value, referred_at, record_id, realm);

-- What operators have written on open operations. Who and when stay, as in the history; the text goes with the answer.
CREATE TABLE IF NOT EXISTS idempotency_note (
    record_id  bytea    NOT NULL,
    token      bytea    NOT NULL, -- of the form that was sent: sent twice, it is one note
    written_at bigint   NOT NULL,
    written_by text     NOT NULL,
    body       text     NOT NULL,
    kind       smallint NOT NULL DEFAULT 0, -- 0 note; of a proposal: 1 open, 2 carried out, 3 withdrawn; 4 who has withdrawn it
    fence      bigint   NOT NULL DEFAULT 0, -- of the record that a proposal or a withdrawal is about
    encoding   smallint NOT NULL DEFAULT 1, -- of the decision: 1 plain
    decision   bytea,                       -- what a proposal says
    PRIMARY KEY (record_id, token)
);

-- One proposal is open about an attempt.
CREATE UNIQUE INDEX IF NOT EXISTS idempotency_note_proposal ON idempotency_note (record_id, fence) WHERE kind = 1;

-- Operators look at the last settlements.
CREATE INDEX IF NOT EXISTS idempotency_settlement_lately ON idempotency_settlement (settled_at);

-- For people: the records, and the steps, with words and timestamps. The library does not use these views.
CREATE OR REPLACE VIEW idempotency_operation AS
SELECT encode(r.id, 'hex') AS operation, r.method, r.route,
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
    timestamptz 'epoch' + r.created_at * interval '1 microsecond' AS created_at,
    timestamptz 'epoch' + r.lease_until * interval '1 microsecond' AS lease_until,
    timestamptz 'epoch' + r.deadline_at * interval '1 microsecond' AS deadline_at,
    timestamptz 'epoch' + r.expires_at * interval '1 microsecond' AS expires_at,
    timestamptz 'epoch' + r.purge_at * interval '1 microsecond' AS purge_at
FROM idempotency_record r, (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now) c;

CREATE OR REPLACE VIEW idempotency_operation_step AS
SELECT encode(s.record_id, 'hex') AS operation, s.name,
    CASE s.kind WHEN 1 THEN 'rows' ELSE 'provider' END AS kind,
    CASE s.state WHEN 1 THEN 'started' ELSE 'finished' END AS state,
    timestamptz 'epoch' + s.started_at * interval '1 microsecond' AS started_at,
    timestamptz 'epoch' + s.finished_at * interval '1 microsecond' AS finished_at
FROM idempotency_step s;
