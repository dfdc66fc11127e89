package watermillidem

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"gorm.io/gorm"
)

// PostgreSQLOffsets keeps the offsets of consumer groups in PostgreSQL, as watermill-sql's own adapter does, and refuses
// to subscribe to an outbox that was moved to another cluster: by dump and restore, logical replication, a blue/green
// switch, pg_upgrade.
//
// Events and offsets are compared by transaction ids, and every cluster counts its own. After a move to a cluster with
// lower ids, new events look as if they had been read long ago, and no error says so. So the cluster's identifier is kept
// beside the offsets, in a row of the group "idem: cluster", and no id may be from the future. The error of Subscribe
// names the repair: [RepairOutbox].
//
// If the role may not call pg_control_system, only the ids are compared.
type PostgreSQLOffsets struct {
	wsql.DefaultPostgreSQLOffsetsAdapter

	// Schema is that of the subscriber, if its tables have names of their own.
	Schema wsql.DefaultPostgreSQLSchema

	// Silence is how long the server waits for a subscriber that says nothing in its transaction, in whole milliseconds.
	// That transaction holds the place of the whole group, and a process that is paused or whose host is gone would hold it
	// for ever. Longer than a batch takes to be handled; one that is cut off comes again. Default: [DefaultSilence].
	Silence time.Duration
}

// DefaultSilence is how long a subscriber may be silent unless PostgreSQLOffsets.Silence says otherwise.
const DefaultSilence = 10 * time.Minute

// clusterGroup is the consumer group in whose place the identifier of the cluster stands.
const clusterGroup = "idem: cluster"

// BeforeSubscribingQueries implements [wsql.OffsetsAdapter].
func (o PostgreSQLOffsets) BeforeSubscribingQueries(p wsql.BeforeSubscribingQueriesParams) ([]wsql.Query, error) {
	queries, err := o.DefaultPostgreSQLOffsetsAdapter.BeforeSubscribingQueries(p)
	check := wsql.Query{Query: o.words(p.Topic).Replace(refuseMoved)}
	return append([]wsql.Query{check}, queries...), err
}

// NextOffsetQuery implements [wsql.OffsetsAdapter]: watermill-sql's own, with guards for its transaction.
func (o PostgreSQLOffsets) NextOffsetQuery(p wsql.NextOffsetQueryParams) (wsql.Query, error) {
	silence := cmp.Or(o.Silence, DefaultSilence)
	return wsql.Query{
		Query: fmt.Sprintf(`SELECT offset_acked, last_processed_transaction_id,
	set_config('idle_in_transaction_session_timeout', '%d', true), set_config('tcp_user_timeout', '10000', true)
FROM %s WHERE consumer_group = $1 FOR UPDATE`, silence.Milliseconds(), o.MessagesOffsetsTable(p.Topic)),
		Args: []any{p.ConsumerGroup},
	}, nil
}

func (o PostgreSQLOffsets) words(topic string) *strings.Replacer {
	return strings.NewReplacer("{events}", o.Schema.MessagesTable(topic), "{offsets}", o.MessagesOffsetsTable(topic),
		"{cluster}", clusterGroup, "{topic}", strings.ReplaceAll(topic, "'", "''"))
}

// refuseMoved compares within one snapshot at a time: what can be seen is older than what the snapshot does not reach.
const refuseMoved = `DO $idem$
DECLARE
	here xid8;
	kept xid8;
BEGIN
	BEGIN
		SELECT system_identifier::text::xid8 INTO here FROM pg_control_system();
	EXCEPTION WHEN insufficient_privilege THEN
		NULL;
	END;
	IF here IS NOT NULL THEN
		INSERT INTO {offsets} (consumer_group, offset_acked, last_processed_transaction_id) VALUES ('{cluster}', 0, here)
		ON CONFLICT DO NOTHING;
		SELECT last_processed_transaction_id INTO kept FROM {offsets} WHERE consumer_group = '{cluster}';
	END IF;
	IF kept <> here
		OR EXISTS (SELECT 1 FROM {events} WHERE transaction_id >= pg_snapshot_xmax(pg_current_snapshot()))
		OR EXISTS (SELECT 1 FROM {offsets} WHERE consumer_group <> '{cluster}'
			AND last_processed_transaction_id >= pg_snapshot_xmax(pg_current_snapshot()))
	THEN
		RAISE EXCEPTION USING MESSAGE = 'idem: watermillidem: the outbox {topic} was moved here from another cluster, '
			'and its offsets mean nothing in this one: events would be skipped in silence. Stop its publishers and '
			'call watermillidem.RepairOutbox';
	END IF;
END $idem$`

// RepairOutbox makes an outbox that was moved to this cluster one of this cluster: no event is skipped. moved is a time
// after the last event was published in the old cluster and before the first one in the new, by the clocks of the two
// databases. What a group had read before stays read; every event that was published after moved is delivered, also if it
// has been delivered here already: use an inbox behind it.
//
// It writes all events of the topic anew, and keeps publishers and subscribers out until it has committed. offsets is the
// subscribers'. Errors: the database's; nothing has changed then.
func RepairOutbox(ctx context.Context, db *gorm.DB, offsets PostgreSQLOffsets, topic string, moved time.Time) error {
	words := offsets.words(topic)
	err := db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		for _, step := range []struct {
			statement string
			args      []any
		}{
			{`LOCK TABLE {events}, {offsets} IN ACCESS EXCLUSIVE MODE`, nil},
			// What a group had read was a prefix of the old cluster's events.
			{`UPDATE {offsets} o SET last_processed_transaction_id = pg_current_xact_id(), offset_acked = (
	SELECT count(*) FROM {events} e WHERE e.created_at < ?::timestamptz
	AND (e.transaction_id, e."offset") <= (o.last_processed_transaction_id, o.offset_acked))
WHERE consumer_group <> '{cluster}'`, []any{moved}},
			// First to numbers that no event has: the pair is the primary key.
			{`UPDATE {events} e SET "offset" = -n.place FROM (
	SELECT ctid AS row, row_number() OVER (ORDER BY created_at >= ?::timestamptz, transaction_id, "offset") AS place
	FROM {events}) n WHERE e.ctid = n.row`, []any{moved}},
			{`UPDATE {events} SET transaction_id = pg_current_xact_id(), "offset" = -"offset"`, nil},
			// The next subscriber notes this cluster.
			{`DELETE FROM {offsets} WHERE consumer_group = '{cluster}'`, nil},
		} {
			if err := tx.Exec(words.Replace(step.statement), step.args...).Error; err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("idem: watermillidem.RepairOutbox: %w", err)
	}
	return nil
}
