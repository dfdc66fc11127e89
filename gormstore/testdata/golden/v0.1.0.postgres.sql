-- Written at 2026-11-22T08:01:41.111061987Z by: go test ./gormstore -run TestGolden -update

CREATE TABLE idempotency_migration (name varchar(255) NOT NULL PRIMARY KEY);
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
INSERT INTO idempotency_intent (intent, idempotency_key, hash_version, command_hash, planned_at, begun_at, begun_by, ended_at) VALUES ('remittance/1', '0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c', '1', E'\\x0102030000000000000000000000000000000000000000000000000000000000', '2026-11-22 08:01:41.105208+00', '2026-11-22 08:01:41.105208+00', E'\\x4b5947564e353632455247565955514932344d494a4858435a46', NULL);
INSERT INTO idempotency_migration (name) VALUES ('0001_idempotency.up.sql');
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body, timed) VALUES (E'\\x11e4fa7dd6dc9d95970f8520d508c6fdb291df9bd22b9a8ba397f5fc772a27c2', E'\\xc984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719', E'\\x6523ada89431af462a9ce81299f2dce118161a075897e8c0', E'\\x668176383b27b7a896fc17d0942ee5ec', '1', '1', '2', '1', 'POST', '/v1/bookings', '1', E'\\x1088f33d90b32315564b1a49b5c8c0ee0dd412b8f6df0711173e80a4121a853e', '2026-11-22 08:01:40.968007+00', '2026-11-22 08:02:10.968007+00', '2026-11-22 08:02:40.968007+00', '2026-11-25 08:01:40.968839+00', '2026-12-25 08:01:40.968839+00', '201', 'false', '1', E'\\x7b22436f6e74656e742d54797065223a5b226170706c69636174696f6e2f6a736f6e225d2c224c6f636174696f6e223a5b222f76312f626f6f6b696e67732f31225d7d', E'\\x7b226964223a20312c2022616d6f756e74223a202231322e3530227d0a', 'false');
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body, timed) VALUES (E'\\x804e5c75994c95614039b4f2ef65b6a5683dee90f9d43cb7a1f94e222c7148b8', E'\\xc984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719', E'\\x6523ada89431af462a9ce81299f2dce118161a075897e8c0', E'\\x5c6c6f641efa877281499ddb0acc24d2', '1', '1', '4', '1', 'POST', '/v1/bookings', '1', E'\\x1088f33d90b32315564b1a49b5c8c0ee0dd412b8f6df0711173e80a4121a853e', '2026-11-19 07:01:40.933869+00', '2026-11-19 07:02:10.933869+00', '2026-11-19 07:02:40.933869+00', '2026-11-22 07:01:40.936515+00', '2026-12-22 07:01:40.936515+00', '201', 'false', '1', NULL, NULL, 'false');
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body, timed) VALUES (E'\\x9ae36ae3c1d15d059789af58e5c0099784abda1a813f84bc5766fa29d4e606e2', E'\\xc984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719', E'\\x6523ada89431af462a9ce81299f2dce118161a075897e8c0', E'\\x11b4e0f3dee1f98266fdb0c9e20eb802', '1', '1', '2', '3', 'POST', '/v1/bookings', '1', E'\\x1088f33d90b32315564b1a49b5c8c0ee0dd412b8f6df0711173e80a4121a853e', '2026-11-22 08:01:41.014181+00', '2026-11-22 08:02:11.014181+00', '2026-11-22 08:02:41.014181+00', '2026-11-25 08:01:41.023534+00', '2026-12-25 08:01:41.023534+00', '202', 'false', '1', NULL, E'\\x7b7d', 'false');
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body, timed) VALUES (E'\\x9b01f4c1e18fc659bcbfe063ff21edb7f4c8f82a6c52dc27aa74a0658c9c4e44', E'\\xc984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719', E'\\x6523ada89431af462a9ce81299f2dce118161a075897e8c0', E'\\x93b90c3103be24fae0adf86c4de5a530', '1', '1', '2', '1', 'POST', '/v1/bookings', '1', E'\\x1088f33d90b32315564b1a49b5c8c0ee0dd412b8f6df0711173e80a4121a853e', '2026-11-22 08:01:40.979686+00', '2026-11-22 08:02:10.979686+00', '2026-11-22 08:02:40.979686+00', '2026-11-25 08:01:40.980849+00', '2026-12-25 08:01:40.980849+00', '409', 'false', '1', E'\\x7b22436f6e74656e742d54797065223a5b22746578742f706c61696e3b20636861727365743d7574662d38225d7d', E'\\x6974277320676f6e653a20c39c5c203b202d2d20277827', 'false');
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body, timed) VALUES (E'\\xafde4cb30a3033d674573312ca851940a5e79421fb582baf78dea78ab1e5503d', E'\\xc984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719', E'\\x6523ada89431af462a9ce81299f2dce118161a075897e8c0', E'\\x4f660ba7d94ddc59773b498f01352cc6', '1', '1', '1', '2', 'POST', '/v1/bookings', '1', E'\\x1088f33d90b32315564b1a49b5c8c0ee0dd412b8f6df0711173e80a4121a853e', '2026-11-22 08:01:41.030657+00', '2026-11-22 08:01:41.045259+00', '2026-11-22 08:02:41.030657+00', NULL, NULL, '0', 'false', '1', NULL, NULL, 'false');
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body, timed) VALUES (E'\\xe24be1b9cc2a0fee685f1a5458489e4f895ac873a4aa3d24509359704f26f406', E'\\xc984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719', E'\\x6523ada89431af462a9ce81299f2dce118161a075897e8c0', E'\\x1683eba12668cbf6c7e50a5299298889', '1', '1', '3', '3', 'POST', '/v1/bookings', '1', E'\\x1088f33d90b32315564b1a49b5c8c0ee0dd412b8f6df0711173e80a4121a853e', '2026-11-22 08:01:41.047238+00', '2026-11-22 08:02:11.047238+00', '2026-11-22 08:02:41.047238+00', NULL, NULL, '0', 'false', '1', NULL, NULL, 'false');
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body, timed) VALUES (E'\\xf6823822aa607368036c2a918b12fda1472869f09f0ba6df631e98097ddedae4', E'\\xc984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719', E'\\x6523ada89431af462a9ce81299f2dce118161a075897e8c0', E'\\x6e336c6a4a738f34c499bc8b192e2aac', '1', '1', '2', '2', 'POST', '/v1/bookings', '1', E'\\x1088f33d90b32315564b1a49b5c8c0ee0dd412b8f6df0711173e80a4121a853e', '2026-11-22 08:01:40.988197+00', '2026-11-22 08:02:10.988197+00', '2026-11-22 08:02:40.988197+00', '2026-11-25 08:01:41.011747+00', '2026-12-25 08:01:41.011747+00', '200', 'false', '1', E'\\x7b22436f6e74656e742d54797065223a5b226170706c69636174696f6e2f6f637465742d73747265616d225d7d', E'\\x000102fffe0a00', 'false');
INSERT INTO idempotency_setting (name, value) VALUES ('scoping/', 'idem/1, tenant optional, client ignored');
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, encoding, result, derived) VALUES (E'\\xafde4cb30a3033d674573312ca851940a5e79421fb582baf78dea78ab1e5503d', 'reserve', '1', '2', '1', '2026-11-22 08:01:41.035314+00', '1', E'\\x22726573657276656422', NULL);
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, encoding, result, derived) VALUES (E'\\xafde4cb30a3033d674573312ca851940a5e79421fb582baf78dea78ab1e5503d', 'refund', '2', '1', '1', '2026-11-22 08:01:41.040077+00', '1', NULL, NULL);
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, encoding, result, derived) VALUES (E'\\xf6823822aa607368036c2a918b12fda1472869f09f0ba6df631e98097ddedae4', 'reserve', '1', '2', '1', '2026-11-22 08:01:40.996713+00', '1', E'\\x22726573657276656422', NULL);
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, encoding, result, derived) VALUES (E'\\xf6823822aa607368036c2a918b12fda1472869f09f0ba6df631e98097ddedae4', 'refund', '2', '2', '1', '2026-11-22 08:01:41.004043+00', '1', E'\\x22726563656970742d3122', NULL);
INSERT INTO processed_message (consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at) VALUES ('stock', 'payments', '3f8c', E'\\x522055bcc47ec4c33c7af9eb4be94d09680871370bad79fbd5569519641bd86f', '2026-11-22 08:01:41.084546+00', '2026-11-22 08:01:41.058972+00', '2026-12-22 08:01:41.084546+00');
