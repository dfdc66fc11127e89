-- Written at 2026-11-29T02:43:21.450401767Z by: go test ./gormstore -run TestGolden -update

CREATE TABLE idempotency_migration (name varchar(255) NOT NULL PRIMARY KEY);
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
    answer_encoding INTEGER NOT NULL DEFAULT 1, -- 1 plain; another number would be an encrypted answer
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
    PRIMARY KEY (record_id, token)
);

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
INSERT INTO idempotency_intent (intent, idempotency_key, hash_version, command_hash, planned_at, begun_at, begun_by, ended_at) VALUES ('remittance/1', '0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c', 1, X'0102030000000000000000000000000000000000000000000000000000000000', 1795920201449000, 1795920201449000, X'324443544C3237594B42424B3432513657573654464941474848', NULL);
INSERT INTO idempotency_migration (name) VALUES ('0001_idempotency.up.sql');
INSERT INTO idempotency_record (fence, created_at, deadline_at, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, ends, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, due_at, headers, body) VALUES (1, 1795657401413000, 1795657401413000, 1, 1, 1, X'804E5C75994C95614039B4F2EF65B6A5683DEE90F9D43CB7A1F94E222C7148B8', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'CD6E1139CE08FB22320BD7EBF5F70687A0104BA7E0C796B21C55DAC3BF46BAA1', 'POST', '/v1/bookings', 0, '', NULL, X'7402EB7436AF577AF7933D9659FDB447', 1795657401413000, 4, 201, 1, 0, 1795916601413000, 1798508601413000, 1798508601413000, NULL, NULL);
INSERT INTO idempotency_record (fence, created_at, deadline_at, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, ends, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, due_at, headers, body) VALUES (1, 1795920201431000, 1795920201431000, 1, 1, 1, X'11E4FA7DD6DC9D95970F8520D508C6FDB291DF9BD22B9A8BA397F5FC772A27C2', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'CD6E1139CE08FB22320BD7EBF5F70687A0104BA7E0C796B21C55DAC3BF46BAA1', 'POST', '/v1/bookings', 0, '', NULL, X'7402EB74F12CF22E63E7B657CD16C503', 1795920201431000, 2, 201, 1, 0, 1796179401431000, 1798771401431000, 1796179401431000, X'7B22436F6E74656E742D54797065223A5B226170706C69636174696F6E2F6A736F6E225D2C224C6F636174696F6E223A5B222F76312F626F6F6B696E67732F31225D7D', X'7B226964223A20312C2022616D6F756E74223A202231322E3530227D0A');
INSERT INTO idempotency_record (fence, created_at, deadline_at, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, ends, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, due_at, headers, body) VALUES (1, 1795920201432000, 1795920201432000, 1, 1, 1, X'9B01F4C1E18FC659BCBFE063FF21EDB7F4C8F82A6C52DC27AA74A0658C9C4E44', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'CD6E1139CE08FB22320BD7EBF5F70687A0104BA7E0C796B21C55DAC3BF46BAA1', 'POST', '/v1/bookings', 0, '', NULL, X'7402EB74B74D30F3E92F4CD53BBA471B', 1795920201432000, 2, 409, 1, 0, 1796179401432000, 1798771401432000, 1796179401432000, X'7B22436F6E74656E742D54797065223A5B22746578742F706C61696E3B20636861727365743D7574662D38225D7D', X'6974277320676F6E653A20C39C5C203B202D2D20277827');
INSERT INTO idempotency_record (fence, created_at, deadline_at, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, ends, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, due_at, headers, body) VALUES (1, 1795920201433000, 1795920261433000, 1, 2, 1, X'F6823822AA607368036C2A918B12FDA1472869F09F0BA6DF631E98097DDEDAE4', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'CD6E1139CE08FB22320BD7EBF5F70687A0104BA7E0C796B21C55DAC3BF46BAA1', 'POST', '/v1/bookings', 0, '', NULL, X'0E15A08D77C84BE7CBF298933076A00E', 1795920231433000, 2, 200, 1, 0, 1796179401434000, 1798771401434000, 1796179401434000, X'7B22436F6E74656E742D54797065223A5B226170706C69636174696F6E2F6F637465742D73747265616D225D7D', X'000102FFFE0A00');
INSERT INTO idempotency_record (fence, created_at, deadline_at, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, ends, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, due_at, headers, body) VALUES (1, 1795920201442000, 1795920261442000, 1, 3, 1, X'9AE36AE3C1D15D059789AF58E5C0099784ABDA1A813F84BC5766FA29D4E606E2', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'CD6E1139CE08FB22320BD7EBF5F70687A0104BA7E0C796B21C55DAC3BF46BAA1', 'POST', '/v1/bookings', 0, '', NULL, X'8BF478C9A2DDF47B828C07D450CBEE36', 1795920231442000, 2, 202, 1, 0, 1796179401443000, 1798771401443000, 1796179401443000, NULL, X'7B7D');
INSERT INTO idempotency_record (fence, created_at, deadline_at, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, ends, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, due_at, headers, body) VALUES (1, 1795920201443000, 1795920261443000, 1, 2, 1, X'AFDE4CB30A3033D674573312CA851940A5E79421FB582BAF78DEA78AB1E5503D', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'CD6E1139CE08FB22320BD7EBF5F70687A0104BA7E0C796B21C55DAC3BF46BAA1', 'POST', '/v1/bookings', 0, '', X'010286ADB79AA8D8B00601EC070E15A08D00', X'0E15A08D4ECF7126FA2C1BA55512195F', 1795920201445000, 1, 0, 1, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO idempotency_record (fence, created_at, deadline_at, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, ends, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, due_at, headers, body) VALUES (1, 1795920201447000, 1795920261447000, 1, 3, 1, X'E24BE1B9CC2A0FEE685F1A5458489E4F895AC873A4AA3D24509359704F26F406', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'CD6E1139CE08FB22320BD7EBF5F70687A0104BA7E0C796B21C55DAC3BF46BAA1', 'POST', '/v1/bookings', 0, '', X'0102C0D9B79AA8D8B00601E8078BF478C900', X'8BF478C9B237EB10C090FADCCF2E6A0B', 1795920231447000, 3, 0, 1, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO idempotency_setting (name, value) VALUES ('scoping/', 'idem/1, tenant optional, client ignored');
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, encoding, result, derived) VALUES (X'AFDE4CB30A3033D674573312CA851940A5E79421FB582BAF78DEA78AB1E5503D', 'reserve', 1, 2, 1, 1795920201443000, 1795920201443000, 1, X'22726573657276656422', NULL);
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, encoding, result, derived) VALUES (X'AFDE4CB30A3033D674573312CA851940A5E79421FB582BAF78DEA78AB1E5503D', 'refund', 2, 1, 1, 1795920201443001, NULL, 1, NULL, NULL);
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, encoding, result, derived) VALUES (X'F6823822AA607368036C2A918B12FDA1472869F09F0BA6DF631E98097DDEDAE4', 'reserve', 1, 2, 1, 1795920201433000, 1795920201433000, 1, X'22726573657276656422', NULL);
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, encoding, result, derived) VALUES (X'F6823822AA607368036C2A918B12FDA1472869F09F0BA6DF631E98097DDEDAE4', 'refund', 2, 2, 1, 1795920201433001, 1795920201434000, 1, X'22726563656970742D3122', NULL);
INSERT INTO processed_message (consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at) VALUES ('stock', 'payments', '3f8c', X'522055BCC47EC4C33C7AF9EB4BE94D09680871370BAD79FBD5569519641BD86F', 1795920201448000, 1795920201448390, 1798512201448390);
