-- +goose Up
-- One row per (principal, key): see the package core for what the columns mean. Migrations only ever add: two
-- releases of an app share these tables during a deployment.
CREATE TABLE IF NOT EXISTS idempotency_record (
    id              bytea       NOT NULL PRIMARY KEY,
    scope           bytea       NOT NULL,
    realm           bytea       NOT NULL, -- what operators of the same one may see
    owner           bytea       NOT NULL,
    fence           bigint      NOT NULL,
    attempts        integer     NOT NULL DEFAULT 1, -- of this life of the key: a Resume operation may take several
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
    body            bytea,
    timed           boolean     NOT NULL DEFAULT false -- its key is a timed one, whose time the id begins with
);

-- What a sweep looks for.
CREATE INDEX IF NOT EXISTS idempotency_record_expires ON idempotency_record (expires_at) WHERE state = 2;
CREATE INDEX IF NOT EXISTS idempotency_record_purge ON idempotency_record (purge_at) WHERE state IN (4, 5);
-- What operators and reconcilers list.
CREATE INDEX IF NOT EXISTS idempotency_record_open ON idempotency_record (created_at, id) WHERE state IN (1, 3);

-- The history of settlements: rows are only ever appended. No sequence, which would lag after a move to another cluster.
CREATE TABLE IF NOT EXISTS idempotency_settlement (
    record_id    bytea       NOT NULL,
    settled_at   timestamptz NOT NULL,
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
    fence       bigint      NOT NULL, -- of the attempt that started it first; of a finished database step the one that ran it
    started_at  timestamptz NOT NULL,
    encoding    smallint    NOT NULL DEFAULT 1, -- of the result: 1 plain
    result      bytea,
    derived     bytea, -- the keys of its calls and events, 32 bytes each
    PRIMARY KEY (record_id, name)
);

-- Commands that have come by, for routes in shadow and for the detection of commands under a new key. Nothing of it is
-- of any weight for claims.
CREATE TABLE IF NOT EXISTS idempotency_sighting (
    id              bytea       NOT NULL PRIMARY KEY, -- of the record its key stands for; 16 random bytes without a key
    scope           bytea       NOT NULL,
    hash_version    smallint    NOT NULL,
    command_hash    bytea       NOT NULL,
    seen_at         timestamptz NOT NULL,
    purge_at        timestamptz NOT NULL
);

-- The same command of the same principal, under which keys and when: the index alone answers it.
CREATE INDEX IF NOT EXISTS idempotency_sighting_command ON idempotency_sighting (scope, command_hash, seen_at, id);
CREATE INDEX IF NOT EXISTS idempotency_sighting_purge ON idempotency_sighting (purge_at);

-- The markers of messages that a consumer has processed: each commits together with the consumer's rows.
CREATE TABLE IF NOT EXISTS processed_message (
    consumer_group  text        NOT NULL,
    source          text        NOT NULL,
    message_id      text        NOT NULL,
    payload_hash    bytea       NOT NULL, -- SHA-256
    processed_at    timestamptz NOT NULL,
    published_at    timestamptz,          -- by the publisher's word
    expires_at      timestamptz NOT NULL, -- a sweep may remove it from then on
    PRIMARY KEY (consumer_group, source, message_id)
);

CREATE INDEX IF NOT EXISTS processed_message_expires ON processed_message (expires_at);

-- What is too old for a group: messages that were published then or before, of whom markers have gone or who have been
-- refused. It only rises.
CREATE TABLE IF NOT EXISTS processed_message_floor (
    consumer_group  text        NOT NULL,
    source          text        NOT NULL,
    published_at    timestamptz NOT NULL,
    PRIMARY KEY (consumer_group, source)
);

-- What this app is about to ask of others, as a client: one key per intent, kept over a restart. See Journal.
CREATE TABLE IF NOT EXISTS idempotency_intent (
    intent          text        NOT NULL PRIMARY KEY,
    idempotency_key text        NOT NULL,
    hash_version    smallint,             -- of the command that was sent; NULL before the first attempt
    command_hash    bytea,
    planned_at      timestamptz NOT NULL,
    begun_at        timestamptz,          -- just before the first attempt
    begun_by        bytea,                -- random: who noted the command knows that nothing was sent before
    ended_at        timestamptz           -- there is a definite answer
);

CREATE INDEX IF NOT EXISTS idempotency_intent_pending ON idempotency_intent (intent) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS idempotency_intent_ended ON idempotency_intent (ended_at) WHERE ended_at IS NOT NULL;

-- What a cap on a principal's open records counts (core.Policy.MaxOpen).
CREATE INDEX IF NOT EXISTS idempotency_record_open_scope ON idempotency_record (scope) WHERE state IN (1, 3);

-- What all instances and releases must agree on, and what must outlive a change of configuration.
CREATE TABLE IF NOT EXISTS idempotency_setting (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);
