package txn

import "github.com/auth19/idem/gormstore/internal/dialect"

// tableColumns are the library's tables with the columns that this release needs.
var tableColumns = map[string][]string{
	"idempotency_record": {"id", "scope", "owner", "fence", "state", "recovery", "method", "route", "hash_version",
		"command_hash", "created_at", "lease_until", "deadline_at", "expires_at", "purge_at", "status", "partial",
		"answer_encoding", "headers", "body", "realm", "attempts", "timed", "due_at",
		"traceparent", "ends"},
	"idempotency_setting": {"name", "value"},
	"idempotency_step": {"record_id", "name", "kind", "state", "fence", "started_at", "finished_at", "encoding", "result",
		"derived"},
	"idempotency_reference": {"record_id", "name", "value", "realm", "referred_at"},
	"idempotency_note": {"record_id", "token", "written_at", "written_by", "body", "kind", "fence", "encoding",
		"decision"},
	"idempotency_sighting": {"id", "scope", "hash_version", "command_hash", "seen_at", "purge_at"},
	"processed_message": {"consumer_group", "source", "message_id", "payload_hash", "processed_at", "published_at",
		"expires_at"},
	"processed_message_floor": {"consumer_group", "source", "published_at"},
	"idempotency_settlement": {"record_id", "settled_at", "settled_by", "reason", "before_fence", "before_state",
		"after_fence", "after_state", "after_status", "undone"},
	"idempotency_intent": {"intent", "idempotency_key", "hash_version", "command_hash", "planned_at", "begun_at", "begun_by",
		"ended_at"},
}

// Rights are what a role must be allowed to do with tables.
type Rights = dialect.Rights
