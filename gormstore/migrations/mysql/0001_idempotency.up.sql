-- +goose Up
-- The form of MariaDB and MySQL: the same columns. Texts that are compared are varbinary, which has no collation and no PAD SPACE.
-- Times are bigint microseconds since 1970. A session's time zone does not change them. Each statement commits by itself and may run again.
CREATE TABLE IF NOT EXISTS idempotency_record (
  id binary(32) NOT NULL, scope binary(32) NOT NULL, realm binary(24) NOT NULL, owner binary(16) NOT NULL,
  fence bigint NOT NULL, probe int NOT NULL DEFAULT 0, state tinyint NOT NULL, recovery tinyint NOT NULL,
  method varbinary(32) NOT NULL, route varbinary(1024) NOT NULL, hash_version smallint NOT NULL, command_hash binary(32) NOT NULL,
  timed tinyint NOT NULL DEFAULT 0, traceparent varbinary(55) NOT NULL DEFAULT '', attempts int NOT NULL DEFAULT 1,
  created_at bigint NOT NULL, lease_until bigint NOT NULL, deadline_at bigint NOT NULL,
  status smallint NOT NULL DEFAULT 0, answer_encoding smallint NOT NULL DEFAULT 1, partial tinyint NOT NULL DEFAULT 0,
  expires_at bigint, purge_at bigint, due_at bigint, headers mediumblob, body longblob, ends blob,
  PRIMARY KEY (id), KEY idempotency_record_due (due_at, created_at, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS idempotency_lock (slot int unsigned NOT NULL PRIMARY KEY) ENGINE=InnoDB;
-- Two rows that no key ever locks. A subquery that reads both fails.
CREATE TABLE IF NOT EXISTS idempotency_never (n tinyint unsigned NOT NULL PRIMARY KEY) ENGINE=InnoDB;
INSERT IGNORE INTO idempotency_never (n) VALUES (0), (1);
CREATE TABLE IF NOT EXISTS idempotency_step (
  record_id binary(32) NOT NULL, name varbinary(255) NOT NULL, kind tinyint NOT NULL, state tinyint NOT NULL, fence bigint NOT NULL,
  started_at bigint NOT NULL, finished_at bigint, encoding smallint NOT NULL DEFAULT 1, result mediumblob, derived mediumblob,
  PRIMARY KEY (record_id, name)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS idempotency_settlement (
  record_id binary(32) NOT NULL, settled_at bigint NOT NULL, settled_by varbinary(255) NOT NULL, reason blob NOT NULL, undone blob NOT NULL,
  before_fence bigint NOT NULL, before_state tinyint NOT NULL, after_fence bigint NOT NULL, after_state tinyint NOT NULL, after_status smallint NOT NULL,
  PRIMARY KEY (record_id, settled_at, after_fence), KEY idempotency_settlement_lately (settled_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS idempotency_reference (
  record_id binary(32) NOT NULL, name varbinary(64) NOT NULL, value varbinary(255) NOT NULL, realm binary(24) NOT NULL, referred_at bigint NOT NULL,
  PRIMARY KEY (record_id, name, value), KEY idempotency_reference_value (value, referred_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS idempotency_setting (name varbinary(512) NOT NULL PRIMARY KEY, value varbinary(1024) NOT NULL
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS idempotency_sighting (
  id varbinary(32) NOT NULL PRIMARY KEY, scope binary(32) NOT NULL, hash_version smallint NOT NULL, command_hash binary(32) NOT NULL,
  seen_at bigint NOT NULL, purge_at bigint NOT NULL,
  KEY idempotency_sighting_command (scope, command_hash, seen_at, id), KEY idempotency_sighting_purge (purge_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS processed_message (
  consumer_group varbinary(255) NOT NULL, source varbinary(255) NOT NULL, message_id varbinary(255) NOT NULL, payload_hash binary(32) NOT NULL,
  processed_at bigint NOT NULL, published_at bigint, expires_at bigint NOT NULL,
  PRIMARY KEY (consumer_group, source, message_id), KEY processed_message_expires (expires_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS processed_message_floor (
  consumer_group varbinary(255) NOT NULL, source varbinary(255) NOT NULL, published_at bigint NOT NULL, PRIMARY KEY (consumer_group, source)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS idempotency_intent (
  intent varbinary(255) NOT NULL PRIMARY KEY, idempotency_key varbinary(255) NOT NULL, hash_version smallint, command_hash binary(32),
  planned_at bigint NOT NULL, begun_at bigint, begun_by varbinary(1024), ended_at bigint, KEY idempotency_intent_ended (ended_at, intent)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS idempotency_note (
  record_id binary(32) NOT NULL, token varbinary(32) NOT NULL, written_at bigint NOT NULL, written_by varbinary(255) NOT NULL, body blob NOT NULL,
  kind tinyint NOT NULL DEFAULT 0, fence bigint NOT NULL DEFAULT 0, encoding smallint NOT NULL DEFAULT 1, decision mediumblob,
  proposed bigint AS (IF(kind = 1, fence, NULL)), PRIMARY KEY (record_id, token), UNIQUE KEY idempotency_note_proposal (record_id, proposed)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
-- Only where slots are missing: an INSERT would wait for each slot that an attempt holds. A SELECT alone reads without locks.
SELECT COUNT(*) INTO @idempotency_slots FROM idempotency_lock;
INSERT IGNORE INTO idempotency_lock (slot) SELECT a.n * 4096 + b.n * 256 + c.n * 16 + d.n FROM
  (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9 UNION SELECT 10 UNION SELECT 11 UNION SELECT 12 UNION SELECT 13 UNION SELECT 14 UNION SELECT 15) a,
  (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9 UNION SELECT 10 UNION SELECT 11 UNION SELECT 12 UNION SELECT 13 UNION SELECT 14 UNION SELECT 15) b,
  (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9 UNION SELECT 10 UNION SELECT 11 UNION SELECT 12 UNION SELECT 13 UNION SELECT 14 UNION SELECT 15) c,
  (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9 UNION SELECT 10 UNION SELECT 11 UNION SELECT 12 UNION SELECT 13 UNION SELECT 14 UNION SELECT 15) d
  WHERE COALESCE(@idempotency_slots, 0) <> 65536;
