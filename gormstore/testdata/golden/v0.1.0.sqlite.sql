-- Written at 2026-11-29T09:39:19.85783178Z by: go test ./gormstore -run TestGolden -update

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
INSERT INTO idempotency_intent (intent, idempotency_key, hash_version, command_hash, planned_at, begun_at, begun_by, ended_at) VALUES ('remittance/1', '0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c', 1, X'0102030000000000000000000000000000000000000000000000000000000000', 1795945159847000, 1795945159847000, X'5849465949434B5748474C423647334C5752534957574F4A4253', NULL);
INSERT INTO idempotency_migration (name) VALUES ('0001_idempotency.up.sql');
INSERT INTO idempotency_note (record_id, token, written_at, written_by, body, kind, fence, encoding, decision) VALUES (X'FD67E9D97B217FD8A24A6D26A13ACDF5DA756A3F36F2024CDCB281804AB3E69C', X'45F0AB92380E02AF06846F915514476A', 1795945159838000, 'issuer="https://issuer.example" subject="olga"', 'seen at the provider', 1, 1, 1, X'7B226F7574636F6D65223A226170706C696564222C22737461747573223A3430392C2268656164657273223A7B22436F6E74656E742D54797065223A5B22746578742F706C61696E3B20636861727365743D7574662D38225D7D2C22626F6479223A226158516E6379426E6232356C4F6944446E4677674F7941744C53416E6543633D227D');
INSERT INTO idempotency_record (fence, created_at, deadline_at, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, ends, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, due_at, headers, body) VALUES (1, 1795682239722000, 1795682239722000, 1, 1, 1, X'804E5C75994C95614039B4F2EF65B6A5683DEE90F9D43CB7A1F94E222C7148B8', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'CD6E1139CE08FB22320BD7EBF5F70687A0104BA7E0C796B21C55DAC3BF46BAA1', 'POST', '/v1/bookings', 0, '', NULL, X'617FCF250206D49BFF03F2803B160F2E', 1795682239722000, 4, 201, 1, 0, 1795941439722000, 1798533439722000, 1798533439722000, NULL, NULL);
INSERT INTO idempotency_record (fence, created_at, deadline_at, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, ends, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, due_at, headers, body) VALUES (1, 1795945039753000, 1795945039753000, 1, 1, 1, X'11E4FA7DD6DC9D95970F8520D508C6FDB291DF9BD22B9A8BA397F5FC772A27C2', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'CD6E1139CE08FB22320BD7EBF5F70687A0104BA7E0C796B21C55DAC3BF46BAA1', 'POST', '/v1/bookings', 0, '', NULL, X'617FCF253DB921A4AAF49594DCF142D5', 1795945039753000, 2, 201, 1, 0, 1796204239753000, 1798796239753000, 1796204239753000, X'7B22436F6E74656E742D54797065223A5B226170706C69636174696F6E2F6A736F6E225D2C224C6F636174696F6E223A5B222F76312F626F6F6B696E67732F31225D7D', X'7B226964223A20312C2022616D6F756E74223A202231322E3530227D0A');
INSERT INTO idempotency_record (fence, created_at, deadline_at, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, ends, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, due_at, headers, body) VALUES (1, 1795945039766000, 1795945039766000, 1, 1, 1, X'9B01F4C1E18FC659BCBFE063FF21EDB7F4C8F82A6C52DC27AA74A0658C9C4E44', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'CD6E1139CE08FB22320BD7EBF5F70687A0104BA7E0C796B21C55DAC3BF46BAA1', 'POST', '/v1/bookings', 0, '', NULL, X'617FCF25102C6ABED5A715AF1673F740', 1795945039766000, 2, 409, 1, 0, 1796204239766000, 1798796239766000, 1796204239766000, X'7B22436F6E74656E742D54797065223A5B22746578742F706C61696E3B20636861727365743D7574662D38225D7D', X'6974277320676F6E653A20C39C5C203B202D2D20277827');
INSERT INTO idempotency_record (fence, created_at, deadline_at, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, ends, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, due_at, headers, body) VALUES (1, 1795945039770000, 1795945099770000, 1, 2, 1, X'F6823822AA607368036C2A918B12FDA1472869F09F0BA6DF631E98097DDEDAE4', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'CD6E1139CE08FB22320BD7EBF5F70687A0104BA7E0C796B21C55DAC3BF46BAA1', 'POST', '/v1/bookings', 0, '', NULL, X'6E923A1AE4C845FAD0AE09DD1E370B2F', 1795945069770000, 2, 200, 1, 0, 1796204239773000, 1798796239773000, 1796204239773000, X'7B22436F6E74656E742D54797065223A5B226170706C69636174696F6E2F6F637465742D73747265616D225D7D', X'000102FFFE0A00');
INSERT INTO idempotency_record (fence, created_at, deadline_at, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, ends, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, due_at, headers, body) VALUES (1, 1795945039782000, 1795945099782000, 1, 3, 1, X'9AE36AE3C1D15D059789AF58E5C0099784ABDA1A813F84BC5766FA29D4E606E2', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'CD6E1139CE08FB22320BD7EBF5F70687A0104BA7E0C796B21C55DAC3BF46BAA1', 'POST', '/v1/bookings', 0, '', NULL, X'D582AF4B5F0ADBAD839B1C692DA6A5E5', 1795945069782000, 2, 202, 1, 0, 1796204239788000, 1798796239788000, 1796204239788000, NULL, X'7B7D');
INSERT INTO idempotency_record (fence, created_at, deadline_at, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, ends, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, due_at, headers, body) VALUES (1, 1795945039793000, 1795945099793000, 1, 2, 1, X'AFDE4CB30A3033D674573312CA851940A5E79421FB582BAF78DEA78AB1E5503D', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'CD6E1139CE08FB22320BD7EBF5F70687A0104BA7E0C796B21C55DAC3BF46BAA1', 'POST', '/v1/bookings', 0, '', X'010296EBC994E2D9B00601EC076E923A1A00', X'6E923A1A07E7A2B83FC85899611288C9', 1795945039801000, 1, 0, 1, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO idempotency_record (fence, created_at, deadline_at, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, ends, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, due_at, headers, body) VALUES (1, 1795945039808000, 1795945099808000, 1, 3, 1, X'E24BE1B9CC2A0FEE685F1A5458489E4F895AC873A4AA3D24509359704F26F406', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'CD6E1139CE08FB22320BD7EBF5F70687A0104BA7E0C796B21C55DAC3BF46BAA1', 'POST', '/v1/bookings', 0, '', X'0102F8DCCB94E2D9B00601E807D582AF4B00', X'D582AF4B8D03261D9718593EA7CCD454', 1795945069808000, 3, 0, 1, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO idempotency_record (fence, created_at, deadline_at, attempts, recovery, hash_version, id, scope, realm, command_hash, method, route, timed, traceparent, ends, owner, lease_until, state, status, answer_encoding, partial, expires_at, purge_at, due_at, headers, body) VALUES (1, 1795945039824000, 1795945099824000, 1, 3, 1, X'FD67E9D97B217FD8A24A6D26A13ACDF5DA756A3F36F2024CDCB281804AB3E69C', X'C984596859740CF90343AC28BCFEB04AB8E28BD92236E361E83E0F145939A719', X'6523ADA89431AF462A9CE81299F2DCE118161A075897E8C0', X'CD6E1139CE08FB22320BD7EBF5F70687A0104BA7E0C796B21C55DAC3BF46BAA1', 'POST', '/v1/bookings', 0, '', X'010294DACC94E2D9B00601E807D582AF4B00', X'D582AF4BC909B11A351670D3E6DD311C', 1795945069824000, 3, 0, 1, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO idempotency_setting (name, value) VALUES ('scoping/', 'idem/1, tenant optional, client ignored');
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, encoding, result, derived) VALUES (X'AFDE4CB30A3033D674573312CA851940A5E79421FB582BAF78DEA78AB1E5503D', 'reserve', 1, 2, 1, 1795945159793000, 1795945159793000, 1, X'22726573657276656422', NULL);
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, encoding, result, derived) VALUES (X'AFDE4CB30A3033D674573312CA851940A5E79421FB582BAF78DEA78AB1E5503D', 'refund', 2, 1, 1, 1795945159793001, NULL, 1, NULL, NULL);
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, encoding, result, derived) VALUES (X'F6823822AA607368036C2A918B12FDA1472869F09F0BA6DF631E98097DDEDAE4', 'reserve', 1, 2, 1, 1795945159770000, 1795945159770000, 1, X'22726573657276656422', NULL);
INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, encoding, result, derived) VALUES (X'F6823822AA607368036C2A918B12FDA1472869F09F0BA6DF631E98097DDEDAE4', 'refund', 2, 2, 1, 1795945159770001, 1795945159774000, 1, X'22726563656970742D3122', NULL);
INSERT INTO processed_message (consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at) VALUES ('stock', 'payments', '3f8c', X'522055BCC47EC4C33C7AF9EB4BE94D09680871370BAD79FBD5569519641BD86F', 1795945159842000, 1795945159842027, 1798537159842027);
