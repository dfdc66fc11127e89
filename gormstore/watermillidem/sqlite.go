package watermillidem

import (
	"context"
	"database/sql"
	"fmt"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
)

// SQLiteSchema lets watermill-sql publish to SQLite and subscribe there, for the embedded default: one process per file.
// The statements of its MySQL schema are plain SQL; only the table is made in another way.
type SQLiteSchema struct{ wsql.DefaultMySQLSchema }

// SchemaInitializingQueries implements [wsql.SchemaAdapter].
func (s SQLiteSchema) SchemaInitializingQueries(p wsql.SchemaInitializingQueriesParams) ([]wsql.Query, error) {
	// AUTOINCREMENT: an offset is never given twice, also when the table has been emptied.
	return []wsql.Query{{Query: fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	"offset" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	uuid TEXT NOT NULL,
	created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
	payload BLOB,
	metadata BLOB
)`, s.MessagesTable(p.Topic))}}, nil
}

// SQLiteOffsets keeps the offsets of consumer groups in SQLite.
type SQLiteOffsets struct {
	wsql.DefaultMySQLOffsetsAdapter
}

// NextOffsetQuery implements [wsql.OffsetsAdapter].
func (o SQLiteOffsets) NextOffsetQuery(p wsql.NextOffsetQueryParams) (wsql.Query, error) {
	return wsql.Query{
		Query: fmt.Sprintf(`SELECT COALESCE((SELECT offset_acked FROM %s WHERE consumer_group = ?), 0)`,
			o.MessagesOffsetsTable(p.Topic)),
		Args: []any{p.ConsumerGroup},
	}, nil
}

// AckMessageQuery implements [wsql.OffsetsAdapter].
func (o SQLiteOffsets) AckMessageQuery(p wsql.AckMessageQueryParams) (wsql.Query, error) {
	return wsql.Query{
		Query: fmt.Sprintf(`INSERT INTO %s (consumer_group, offset_acked, offset_consumed) VALUES (?, ?, ?)
ON CONFLICT (consumer_group) DO UPDATE SET offset_acked = max(offset_acked, excluded.offset_acked)`,
			o.MessagesOffsetsTable(p.Topic)),
		Args: []any{p.ConsumerGroup, p.LastRow.Offset, p.LastRow.Offset},
	}, nil
}

// ConsumedMessageQuery implements [wsql.OffsetsAdapter]: there is nothing to note before the acknowledgement.
func (SQLiteOffsets) ConsumedMessageQuery(wsql.ConsumedMessageQueryParams) (wsql.Query, error) {
	return wsql.Query{}, nil
}

// SQLiteBeginner is what a subscriber of watermill-sql runs on in SQLite. The subscriber holds a transaction from the
// query until the acknowledgement; here every statement stands alone, because that transaction would keep the handler
// from the one writer, or fail once the handler has written. A message may be delivered again where a statement fails or
// two subscribers share a group: the inbox is for that.
func SQLiteBeginner(db *sql.DB) wsql.Beginner { return beginner{wsql.BeginnerFromStdSQL(db)} }

type beginner struct{ wsql.Beginner }

// BeginTx implements [wsql.Beginner].
func (b beginner) BeginTx(context.Context, *sql.TxOptions) (wsql.Tx, error) {
	return statements{b}, nil
}

// statements is a transaction that is none.
type statements struct{ wsql.ContextExecutor }

// Commit implements [wsql.Tx].
func (statements) Commit() error { return nil }

// Rollback implements [wsql.Tx].
func (statements) Rollback() error { return nil }
