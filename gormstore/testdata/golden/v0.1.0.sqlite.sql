-- Written at 2026-11-22T08:01:38.638384829Z by: go test ./gormstore -run TestGolden -update

CREATE TABLE idempotency_migration (name varchar(255) NOT NULL PRIMARY KEY);
-- +goose Up
-- The SQLite form of the tables: the same columns; points in time are microseconds since 1970.
CREATE TABLE IF NOT EXISTS idempotency_record (
    id              BLOB    NOT NULL PRIMARY KEY,
    scope           BLOB    NOT NULL,
    realm           BLOB    NOT NULL, -- what operators of the same one may see
    owner           BLOB    NOT NULL,
    fence           INTEGER NOT NULL,
    attempts        INTEGER NOT NULL DEFAULT 1, -- of this life of the key: a Resume operation may take several
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
    body            BLOB,
    timed           INTEGER NOT NULL DEFAULT 0 -- its key is a timed one, whose time the id begins with
);

CREATE INDEX IF NOT EXISTS idempotency_record_expires ON idempotency_record (expires_at) WHERE state = 2;
CREATE INDEX IF NOT EXISTS idempotency_record_purge ON idempotency_record (purge_at) WHERE state IN (4, 5);
CREATE INDEX IF NOT EXISTS idempotency_record_open ON idempotency_record (created_at, id) WHERE state IN (1, 3);

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
    fence       INTEGER NOT NULL, -- of the attempt that started it first; of a finished database step the one that ran it
    started_at  INTEGER NOT NULL,
    encoding    INTEGER NOT NULL DEFAULT 1, -- of the result: 1 plain
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
    published_at    INTEGER,          -- by the publisher's word
    expires_at      INTEGER NOT NULL, -- a sweep may remove it from then on
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
    begun_by        BLOB,             -- random: who noted the command knows that nothing was sent before
    ended_at        INTEGER           -- there is a definite answer
);

CREATE INDEX IF NOT EXISTS idempotency_intent_pending ON idempotency_intent (intent) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS idempotency_intent_ended ON idempotency_intent (ended_at) WHERE ended_at IS NOT NULL;

CREATE INDEX IF NOT EXISTS idempotency_record_open_scope ON idempotency_record (scope) WHERE state IN (1, 3);

CREATE TABLE IF NOT EXISTS idempotency_setting (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
INSERT INTO idempotency_intent (intent, idempotency_key, hash_version, command_hash, planned_at, begun_at, begun_by, ended_at) VALUES ('remittance/1', '0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c', 1, X'0102030000000000000000000000000000000000000000000000000000000000', 1795334498634000, 1795334498634000, X'364C5541454B52554B48534F55584732475532324C4432564244', NULL);
INSERT INTO idempotency_migration (name) VALUES ('0001_idempotency.up.sql');
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body, timed) VALUES (X'11E4FA7DD6DC9D95970F8520D508C6FDB291DF9BD22B9A8BA397F5FC772A27C2', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'D47C660F44F775649EABC39187CC4EEE', 1, 1, 2, 1, 'POST', '/v1/bookings', 1, X'1088F33D90B32315564B1A49B5C8C0EE0DD412B8F6DF0711173E80A4121A853E', 1795334498576000, 1795334528576000, 1795334558576000, 1795593698576000, 1798185698576000, 201, 0, 1, X'7B22436F6E74656E742D54797065223A5B226170706C69636174696F6E2F6A736F6E225D2C224C6F636174696F6E223A5B222F76312F626F6F6B696E67732F31225D7D', X'7B226964223A20312C2022616D6F756E74223A202231322E3530227D0A', 0);
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body, timed) VALUES (X'804E5C75994C95614039B4F2EF65B6A5683DEE90F9D43CB7A1F94E222C7148B8', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'C19B28440347B5F41DEBE44CFD171C8A', 1, 1, 4, 1, 'POST', '/v1/bookings', 1, X'1088F33D90B32315564B1A49B5C8C0EE0DD412B8F6DF0711173E80A4121A853E', 1795071698563000, 1795071728563000, 1795071758563000, 1795330898564000, 1797922898564000, 201, 0, 1, NULL, NULL, 0);
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body, timed) VALUES (X'9AE36AE3C1D15D059789AF58E5C0099784ABDA1A813F84BC5766FA29D4E606E2', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'436EB745CDA12ADD75C2B97258D36608', 1, 1, 2, 3, 'POST', '/v1/bookings', 1, X'1088F33D90B32315564B1A49B5C8C0EE0DD412B8F6DF0711173E80A4121A853E', 1795334498613000, 1795334528613000, 1795334558613000, 1795593698613000, 1798185698613000, 202, 0, 1, X'', X'7B7D', 0);
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body, timed) VALUES (X'9B01F4C1E18FC659BCBFE063FF21EDB7F4C8F82A6C52DC27AA74A0658C9C4E44', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'BAA98BE47BA15EB9A1020C0E00A64A28', 1, 1, 2, 1, 'POST', '/v1/bookings', 1, X'1088F33D90B32315564B1A49B5C8C0EE0DD412B8F6DF0711173E80A4121A853E', 1795334498586000, 1795334528586000, 1795334558586000, 1795593698587000, 1798185698587000, 409, 0, 1, X'7B22436F6E74656E742D54797065223A5B22746578742F706C61696E3B20636861727365743D7574662D38225D7D', X'6974277320676F6E653A20C39C5C203B202D2D20277827', 0);
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body, timed) VALUES (X'AFDE4CB30A3033D674573312CA851940A5E79421FB582BAF78DEA78AB1E5503D', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'3B841F522531DB321CCDD2107A339EF3', 1, 1, 1, 2, 'POST', '/v1/bookings', 1, X'1088F33D90B32315564B1A49B5C8C0EE0DD412B8F6DF0711173E80A4121A853E', 1795334498614000, 1795334498618000, 1795334558614000, NULL, NULL, 0, 0, 1, NULL, NULL, 0);
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body, timed) VALUES (X'E24BE1B9CC2A0FEE685F1A5458489E4F895AC873A4AA3D24509359704F26F406', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'390F0B91B5C180C69FD44FE53D81F271', 1, 1, 3, 3, 'POST', '/v1/bookings', 1, X'1088F33D90B32315564B1A49B5C8C0EE0DD412B8F6DF0711173E80A4121A853E', 1795334498621000, 1795334528621000, 1795334558621000, NULL, NULL, 0, 0, 1, NULL, NULL, 0);
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body, timed) VALUES (X'F6823822AA607368036C2A918B12FDA1472869F09F0BA6DF631E98097DDEDAE4', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'871A232001B07BF45FA86C8C7BBCDAFE', 1, 1, 2, 2, 'POST', '/v1/bookings', 1, X'1088F33D90B32315564B1A49B5C8C0EE0DD412B8F6DF0711173E80A4121A853E', 1795334498603000, 1795334528603000, 1795334558603000, 1795593698611000, 1798185698611000, 200, 0, 1, X'7B22436F6E74656E742D54797065223A5B226170706C69636174696F6E2F6F637465742D73747265616D225D7D', X'000102FFFE0A00', 0);
INSERT INTO idempotency_setting (name, value) VALUES ('scoping/', 'idem/1, tenant optional, client ignored');
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, encoding, result, derived) VALUES (X'AFDE4CB30A3033D674573312CA851940A5E79421FB582BAF78DEA78AB1E5503D', 'reserve', 1, 2, 1, 1795334498615000, 1, X'22726573657276656422', X'');
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, encoding, result, derived) VALUES (X'AFDE4CB30A3033D674573312CA851940A5E79421FB582BAF78DEA78AB1E5503D', 'refund', 2, 1, 1, 1795334498616000, 1, NULL, NULL);
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, encoding, result, derived) VALUES (X'F6823822AA607368036C2A918B12FDA1472869F09F0BA6DF631E98097DDEDAE4', 'reserve', 1, 2, 1, 1795334498607000, 1, X'22726573657276656422', X'');
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, encoding, result, derived) VALUES (X'F6823822AA607368036C2A918B12FDA1472869F09F0BA6DF631E98097DDEDAE4', 'refund', 2, 2, 1, 1795334498609000, 1, X'22726563656970742D3122', X'');
INSERT INTO processed_message (consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at) VALUES ('stock', 'payments', '3f8c', X'522055BCC47EC4C33C7AF9EB4BE94D09680871370BAD79FBD5569519641BD86F', 1795334498628000, 1795334498628213, 1797926498628213);
