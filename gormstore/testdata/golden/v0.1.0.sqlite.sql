-- Written at 2026-11-22T07:45:16.504889514Z by: go test ./gormstore -run TestGolden -update

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
    body            BLOB
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
INSERT INTO idempotency_intent (intent, idempotency_key, hash_version, command_hash, planned_at, begun_at, begun_by, ended_at) VALUES ('remittance/1', '0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c', 1, X'0102030000000000000000000000000000000000000000000000000000000000', 1795333516504000, 1795333516504000, X'4A4B42343343333455434234344F434E5059554D4D4143324C36', NULL);
INSERT INTO idempotency_migration (name) VALUES ('0001_idempotency.up.sql');
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body) VALUES (X'11E4FA7DD6DC9D95970F8520D508C6FDB291DF9BD22B9A8BA397F5FC772A27C2', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'85BCB480710EB1757D82611E72123EC9', 1, 1, 2, 1, 'POST', '/v1/bookings', 1, X'1088F33D90B32315564B1A49B5C8C0EE0DD412B8F6DF0711173E80A4121A853E', 1795333516285000, 1795333546285000, 1795333576285000, 1795592716286000, 1798184716286000, 201, 0, 1, X'7B22436F6E74656E742D54797065223A5B226170706C69636174696F6E2F6A736F6E225D2C224C6F636174696F6E223A5B222F76312F626F6F6B696E67732F31225D7D', X'7B226964223A20312C2022616D6F756E74223A202231322E3530227D0A');
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body) VALUES (X'804E5C75994C95614039B4F2EF65B6A5683DEE90F9D43CB7A1F94E222C7148B8', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'FFC36D78593A98CF16059E2C3AD4357B', 1, 1, 4, 1, 'POST', '/v1/bookings', 1, X'1088F33D90B32315564B1A49B5C8C0EE0DD412B8F6DF0711173E80A4121A853E', 1795070716268000, 1795070746268000, 1795070776268000, 1795329916269000, 1797921916269000, 201, 0, 1, NULL, NULL);
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body) VALUES (X'9AE36AE3C1D15D059789AF58E5C0099784ABDA1A813F84BC5766FA29D4E606E2', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'E347C24598D174345EFCCF9F0A96C56A', 1, 1, 2, 3, 'POST', '/v1/bookings', 1, X'1088F33D90B32315564B1A49B5C8C0EE0DD412B8F6DF0711173E80A4121A853E', 1795333516476000, 1795333546476000, 1795333576476000, 1795592716477000, 1798184716477000, 202, 0, 1, X'', X'7B7D');
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body) VALUES (X'9B01F4C1E18FC659BCBFE063FF21EDB7F4C8F82A6C52DC27AA74A0658C9C4E44', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'BA6B178CF47EA87A53557F3DDBD9BD2B', 1, 1, 2, 1, 'POST', '/v1/bookings', 1, X'1088F33D90B32315564B1A49B5C8C0EE0DD412B8F6DF0711173E80A4121A853E', 1795333516391000, 1795333546391000, 1795333576391000, 1795592716392000, 1798184716392000, 409, 0, 1, X'7B22436F6E74656E742D54797065223A5B22746578742F706C61696E3B20636861727365743D7574662D38225D7D', X'6974277320676F6E653A20C39C5C203B202D2D20277827');
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body) VALUES (X'AFDE4CB30A3033D674573312CA851940A5E79421FB582BAF78DEA78AB1E5503D', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'8A0A62D033076900E8E48695B4CE240F', 1, 1, 1, 2, 'POST', '/v1/bookings', 1, X'1088F33D90B32315564B1A49B5C8C0EE0DD412B8F6DF0711173E80A4121A853E', 1795333516483000, 1795333516500000, 1795333576483000, NULL, NULL, 0, 0, 1, NULL, NULL);
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body) VALUES (X'E24BE1B9CC2A0FEE685F1A5458489E4F895AC873A4AA3D24509359704F26F406', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'7A74F348667D59E5A7AF5B7C7A59DED6', 1, 1, 3, 3, 'POST', '/v1/bookings', 1, X'1088F33D90B32315564B1A49B5C8C0EE0DD412B8F6DF0711173E80A4121A853E', 1795333516501000, 1795333546501000, 1795333576501000, NULL, NULL, 0, 0, 1, NULL, NULL);
INSERT INTO idempotency_record (id, scope, realm, owner, fence, attempts, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, answer_encoding, headers, body) VALUES (X'F6823822AA607368036C2A918B12FDA1472869F09F0BA6DF631E98097DDEDAE4', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'3386308C490BBA2767F63E952878B90A', 1, 1, 2, 2, 'POST', '/v1/bookings', 1, X'1088F33D90B32315564B1A49B5C8C0EE0DD412B8F6DF0711173E80A4121A853E', 1795333516398000, 1795333546398000, 1795333576398000, 1795592716475000, 1798184716475000, 200, 0, 1, X'7B22436F6E74656E742D54797065223A5B226170706C69636174696F6E2F6F637465742D73747265616D225D7D', X'000102FFFE0A00');
INSERT INTO idempotency_setting (name, value) VALUES ('scoping/', 'idem/1, tenant optional, client ignored');
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, encoding, result, derived) VALUES (X'AFDE4CB30A3033D674573312CA851940A5E79421FB582BAF78DEA78AB1E5503D', 'reserve', 1, 2, 1, 1795333516493000, 1, X'22726573657276656422', X'');
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, encoding, result, derived) VALUES (X'AFDE4CB30A3033D674573312CA851940A5E79421FB582BAF78DEA78AB1E5503D', 'refund', 2, 1, 1, 1795333516499000, 1, NULL, NULL);
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, encoding, result, derived) VALUES (X'F6823822AA607368036C2A918B12FDA1472869F09F0BA6DF631E98097DDEDAE4', 'reserve', 1, 2, 1, 1795333516422000, 1, X'22726573657276656422', X'');
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, encoding, result, derived) VALUES (X'F6823822AA607368036C2A918B12FDA1472869F09F0BA6DF631E98097DDEDAE4', 'refund', 2, 2, 1, 1795333516429000, 1, X'22726563656970742D3122', X'');
INSERT INTO processed_message (consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at) VALUES ('stock', 'payments', '3f8c', X'522055BCC47EC4C33C7AF9EB4BE94D09680871370BAD79FBD5569519641BD86F', 1795333516503000, 1795333516502856, 1797925516503000);
