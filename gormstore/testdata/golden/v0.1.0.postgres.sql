-- Written at 2026-11-27T04:24:38.332817857Z by: go test ./gormstore -run TestGolden -update

CREATE TABLE idempotency_migration (name varchar(255) NOT NULL PRIMARY KEY);
-- +goose Up
-- One row per (principal, key): see the package core for what the columns mean. Migrations only add: two
-- releases of an app share these tables during a deployment.
--
-- An UPDATE that changes no indexed column, and finds room on the row's page, writes to no index (HOT). Recording an answer
-- is meant to be such an UPDATE. So no index has a column that it changes, and each page keeps three tenths of its room for
-- the answers of the records that are on it. The columns that it changes are the last ones: PostgreSQL does not write what
-- the old row and the new one have in common at their beginning to its log.
CREATE TABLE IF NOT EXISTS idempotency_record (
    fence           bigint      NOT NULL,
    created_at      timestamptz NOT NULL,
    deadline_at     timestamptz NOT NULL,
    sweep_from      timestamptz NOT NULL, -- a sweep looks at the record sweep_after seconds after this
    sweep_after     integer,              -- NULL: the record is listed as open, and never swept
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
    owner           bytea       NOT NULL,
    lease_until     timestamptz NOT NULL,
    state           smallint    NOT NULL, -- 1 running, 2 completed, 3 unknown, 4 tombstone, 5 free
    status          smallint    NOT NULL DEFAULT 0,
    answer_encoding smallint    NOT NULL DEFAULT 1, -- 1 plain; another number would be an encrypted answer
    partial         boolean     NOT NULL DEFAULT false,
    expires_at      timestamptz,          -- end of retention
    purge_at        timestamptz,          -- end of the tombstone
    headers         bytea,
    body            bytea
) WITH (fillfactor = 70);

-- The sweep and the patrol read the records of each sweep_after in the order of sweep_from. A claim sets sweep_after to its
-- deadline and its retention, so that there are only a few. 0 is for records that the sweep looks at exactly at sweep_from.
CREATE INDEX IF NOT EXISTS idempotency_record_sweep ON idempotency_record (sweep_after, sweep_from)
    WHERE sweep_after IS NOT NULL;
-- Operators and reconcilers list these, and the newest ones of the index above.
CREATE INDEX IF NOT EXISTS idempotency_record_open ON idempotency_record (created_at, id) WHERE sweep_after IS NULL;
-- The cap on a principal's open records counts these (core.Policy.MaxOpen).
CREATE INDEX IF NOT EXISTS idempotency_record_open_scope ON idempotency_record (scope) WHERE sweep_after IS NULL;

-- The history of settlements: rows are only appended. There is no sequence: it could lag after a move to another cluster.
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
    fence       bigint      NOT NULL, -- of the attempt that started the step first; of a finished database step, of the attempt that ran it
    started_at  timestamptz NOT NULL,
    finished_at timestamptz, -- when its result was recorded
    encoding    smallint    NOT NULL DEFAULT 1, -- of the result: 1 plain
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
    seen_at         timestamptz NOT NULL,
    purge_at        timestamptz NOT NULL
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
    processed_at    timestamptz NOT NULL,
    published_at    timestamptz,          -- by the publisher's clock
    expires_at      timestamptz NOT NULL, -- a sweep may delete it after that
    PRIMARY KEY (consumer_group, source, message_id)
);

CREATE INDEX IF NOT EXISTS processed_message_expires ON processed_message (expires_at);

-- What is too old for a group: messages that were published then or before. Their markers may have been deleted, or they
-- have been refused. The floor only rises.
CREATE TABLE IF NOT EXISTS processed_message_floor (
    consumer_group  text        NOT NULL,
    source          text        NOT NULL,
    published_at    timestamptz NOT NULL,
    PRIMARY KEY (consumer_group, source)
);

-- What this app asks of other services, as a client: one key per intent, which survives a restart. See Journal.
CREATE TABLE IF NOT EXISTS idempotency_intent (
    intent          text        NOT NULL PRIMARY KEY,
    idempotency_key text        NOT NULL,
    hash_version    smallint,             -- of the command that was sent; NULL before the first attempt
    command_hash    bytea,
    planned_at      timestamptz NOT NULL,
    begun_at        timestamptz,          -- just before the first attempt
    begun_by        bytea,                -- random: tells the writer of the command that nothing was sent before
    ended_at        timestamptz           -- there is a definite answer
);

CREATE INDEX IF NOT EXISTS idempotency_intent_pending ON idempotency_intent (intent) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS idempotency_intent_ended ON idempotency_intent (ended_at) WHERE ended_at IS NOT NULL;

-- What all instances and releases must agree on, and what must survive a change of configuration.
CREATE TABLE IF NOT EXISTS idempotency_setting (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);
-- +goose Up
-- What people outside know an operation by: see core.Reference. A row is deleted when its record becomes a tombstone, is
-- erased, or is dropped. There is no foreign key: in a transaction the reference is written before its record.
CREATE TABLE IF NOT EXISTS idempotency_reference (
    record_id   bytea       NOT NULL,
    name        text        NOT NULL,
    value       text        NOT NULL,
    realm       bytea       NOT NULL, -- operators find those of their own realm
    referred_at timestamptz NOT NULL,
    PRIMARY KEY (record_id, name, value)
);

CREATE INDEX IF NOT EXISTS idempotency_reference_value ON idempotency_reference (value, referred_at);

-- Operators look at the last settlements.
CREATE INDEX IF NOT EXISTS idempotency_settlement_lately ON idempotency_settlement (settled_at);
INSERT INTO idempotency_intent (intent, idempotency_key, hash_version, command_hash, planned_at, begun_at, begun_by, ended_at) VALUES ('remittance/1', '0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c', '1', E'\\x0102030000000000000000000000000000000000000000000000000000000000', '2026-11-27 04:24:38.332335+00', '2026-11-27 04:24:38.332335+00', E'\\x335158365832455749374f5045334f54584e58565658454b4f32', NULL);
INSERT INTO idempotency_migration (name) VALUES ('0001_idempotency.up.sql');
INSERT INTO idempotency_migration (name) VALUES ('0002_reference.up.sql');
INSERT INTO idempotency_record (fence, created_at, deadline_at, sweep_from, sweep_after, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, headers, body) VALUES ('1', '2026-11-24 03:24:38.301019+00', '2026-11-24 03:24:38.301019+00', '2026-12-27 03:24:38.301019+00', '0', '1', '1', '1', E'\\x804e5c75994c95614039b4f2ef65b6a5683dee90f9d43cb7a1f94e222c7148b8', E'\\xc984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719', E'\\x6523ada89431af462a9ce81299f2dce118161a075897e8c0', E'\\xcd6e1139ce08fb22320bd7ebf5f70687a0104ba7e0c796b21c55dac3bf46baa1', 'POST', '/v1/bookings', 'false', '', E'\\x0db5165399eece558c50f59b5ca18510', '2026-11-24 03:24:38.301019+00', '4', '201', '1', 'false', '2026-11-27 03:24:38.301019+00', '2026-12-27 03:24:38.301019+00', NULL, NULL);
INSERT INTO idempotency_record (fence, created_at, deadline_at, sweep_from, sweep_after, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, headers, body) VALUES ('1', '2026-11-27 04:24:38.312818+00', '2026-11-27 04:24:38.312818+00', '2026-11-30 04:24:38.312818+00', '0', '1', '1', '1', E'\\x11e4fa7dd6dc9d95970f8520d508c6fdb291df9bd22b9a8ba397f5fc772a27c2', E'\\xc984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719', E'\\x6523ada89431af462a9ce81299f2dce118161a075897e8c0', E'\\xcd6e1139ce08fb22320bd7ebf5f70687a0104ba7e0c796b21c55dac3bf46baa1', 'POST', '/v1/bookings', 'false', '', E'\\xd6517d7a519930273e5cce8b36438c29', '2026-11-27 04:24:38.312818+00', '2', '201', '1', 'false', '2026-11-30 04:24:38.312818+00', '2026-12-30 04:24:38.312818+00', E'\\x7b22436f6e74656e742d54797065223a5b226170706c69636174696f6e2f6a736f6e225d2c224c6f636174696f6e223a5b222f76312f626f6f6b696e67732f31225d7d', E'\\x7b226964223a20312c2022616d6f756e74223a202231322e3530227d0a');
INSERT INTO idempotency_record (fence, created_at, deadline_at, sweep_from, sweep_after, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, headers, body) VALUES ('1', '2026-11-27 04:24:38.314741+00', '2026-11-27 04:24:38.314741+00', '2026-11-30 04:24:38.314741+00', '0', '1', '1', '1', E'\\x9b01f4c1e18fc659bcbfe063ff21edb7f4c8f82a6c52dc27aa74a0658c9c4e44', E'\\xc984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719', E'\\x6523ada89431af462a9ce81299f2dce118161a075897e8c0', E'\\xcd6e1139ce08fb22320bd7ebf5f70687a0104ba7e0c796b21c55dac3bf46baa1', 'POST', '/v1/bookings', 'false', '', E'\\x8bcd8e5285cb8ec2ac203a6d624e45fb', '2026-11-27 04:24:38.314741+00', '2', '409', '1', 'false', '2026-11-30 04:24:38.314741+00', '2026-12-30 04:24:38.314741+00', E'\\x7b22436f6e74656e742d54797065223a5b22746578742f706c61696e3b20636861727365743d7574662d38225d7d', E'\\x6974277320676f6e653a20c39c5c203b202d2d20277827');
INSERT INTO idempotency_record (fence, created_at, deadline_at, sweep_from, sweep_after, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, headers, body) VALUES ('1', '2026-11-27 04:24:38.317122+00', '2026-11-27 04:25:38.317122+00', '2026-11-27 04:24:38.317122+00', '259260', '1', '2', '1', E'\\xf6823822aa607368036c2a918b12fda1472869f09f0ba6df631e98097ddedae4', E'\\xc984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719', E'\\x6523ada89431af462a9ce81299f2dce118161a075897e8c0', E'\\xcd6e1139ce08fb22320bd7ebf5f70687a0104ba7e0c796b21c55dac3bf46baa1', 'POST', '/v1/bookings', 'false', '', E'\\x85a3ddb4c32105f394db0d2a2fd8da93', '2026-11-27 04:25:08.317122+00', '2', '200', '1', 'false', '2026-11-30 04:24:38.319073+00', '2026-12-30 04:24:38.319073+00', E'\\x7b22436f6e74656e742d54797065223a5b226170706c69636174696f6e2f6f637465742d73747265616d225d7d', E'\\x000102fffe0a00');
INSERT INTO idempotency_record (fence, created_at, deadline_at, sweep_from, sweep_after, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, headers, body) VALUES ('1', '2026-11-27 04:24:38.320545+00', '2026-11-27 04:25:38.320545+00', '2026-11-27 04:24:38.320545+00', '259260', '1', '3', '1', E'\\x9ae36ae3c1d15d059789af58e5c0099784abda1a813f84bc5766fa29d4e606e2', E'\\xc984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719', E'\\x6523ada89431af462a9ce81299f2dce118161a075897e8c0', E'\\xcd6e1139ce08fb22320bd7ebf5f70687a0104ba7e0c796b21c55dac3bf46baa1', 'POST', '/v1/bookings', 'false', '', E'\\x3e15b91005aae67b1372884f17ebfb68', '2026-11-27 04:25:08.320545+00', '2', '202', '1', 'false', '2026-11-30 04:24:38.321299+00', '2026-12-30 04:24:38.321299+00', NULL, E'\\x7b7d');
INSERT INTO idempotency_record (fence, created_at, deadline_at, sweep_from, sweep_after, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, headers, body) VALUES ('1', '2026-11-27 04:24:38.322563+00', '2026-11-27 04:25:38.322563+00', '2026-11-27 04:24:38.322563+00', '259260', '1', '2', '1', E'\\xafde4cb30a3033d674573312ca851940a5e79421fb582baf78dea78ab1e5503d', E'\\xc984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719', E'\\x6523ada89431af462a9ce81299f2dce118161a075897e8c0', E'\\xcd6e1139ce08fb22320bd7ebf5f70687a0104ba7e0c796b21c55dac3bf46baa1', 'POST', '/v1/bookings', 'false', '', E'\\x18ae7099f40cf466cd0ba5db9394b3ae', '2026-11-27 04:24:38.323349+00', '1', '0', '1', 'false', NULL, NULL, NULL, NULL);
INSERT INTO idempotency_record (fence, created_at, deadline_at, sweep_from, sweep_after, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, headers, body) VALUES ('1', '2026-11-27 04:24:38.323884+00', '2026-11-27 04:25:38.323884+00', '2026-11-27 04:24:38.323884+00', NULL, '1', '3', '1', E'\\xe24be1b9cc2a0fee685f1a5458489e4f895ac873a4aa3d24509359704f26f406', E'\\xc984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719', E'\\x6523ada89431af462a9ce81299f2dce118161a075897e8c0', E'\\xcd6e1139ce08fb22320bd7ebf5f70687a0104ba7e0c796b21c55dac3bf46baa1', 'POST', '/v1/bookings', 'false', '', E'\\x81a87c88ed31155419ce93b44e7b36b1', '2026-11-27 04:25:08.323884+00', '3', '0', '1', 'false', NULL, NULL, NULL, NULL);
INSERT INTO idempotency_setting (name, value) VALUES ('patrol/limit', '1795753468303757');
INSERT INTO idempotency_setting (name, value) VALUES ('patrol/passed', '1795753468303757');
INSERT INTO idempotency_setting (name, value) VALUES ('patrol/writers', '1795753468303757:');
INSERT INTO idempotency_setting (name, value) VALUES ('scoping/', 'idem/1, tenant optional, client ignored');
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, encoding, result, derived) VALUES (E'\\xafde4cb30a3033d674573312ca851940a5e79421fb582baf78dea78ab1e5503d', 'reserve', '1', '2', '1', '2026-11-27 04:24:38.322733+00', '2026-11-27 04:24:38.322733+00', '1', E'\\x22726573657276656422', NULL);
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, encoding, result, derived) VALUES (E'\\xafde4cb30a3033d674573312ca851940a5e79421fb582baf78dea78ab1e5503d', 'refund', '2', '1', '1', '2026-11-27 04:24:38.322734+00', NULL, '1', NULL, NULL);
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, encoding, result, derived) VALUES (E'\\xf6823822aa607368036c2a918b12fda1472869f09f0ba6df631e98097ddedae4', 'reserve', '1', '2', '1', '2026-11-27 04:24:38.317356+00', '2026-11-27 04:24:38.317356+00', '1', E'\\x22726573657276656422', NULL);
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, encoding, result, derived) VALUES (E'\\xf6823822aa607368036c2a918b12fda1472869f09f0ba6df631e98097ddedae4', 'refund', '2', '2', '1', '2026-11-27 04:24:38.317357+00', '2026-11-27 04:24:38.319273+00', '1', E'\\x22726563656970742d3122', NULL);
INSERT INTO processed_message (consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at) VALUES ('stock', 'payments', '3f8c', E'\\x522055bcc47ec4c33c7af9eb4be94d09680871370bad79fbd5569519641bd86f', '2026-11-27 04:24:38.328647+00', '2026-11-27 04:24:38.32532+00', '2026-12-27 04:24:38.328647+00');
