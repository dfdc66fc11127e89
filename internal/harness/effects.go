package harness

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/auth19/idem/core"
)

// Kind is the kind of a money command. It has the name of the entries in the ledger of the example apps.
type Kind string

// The kinds, one for each recovery.
const (
	Payment Kind = "payment" // Rollback
	Refund  Kind = "refund"  // Resume
	Payout  Kind = "payout"  // Park
)

// Kinds has all kinds.
var Kinds = []Kind{Payment, Refund, Payout}

// Recovery is the recovery of the kind's route.
func (k Kind) Recovery() core.Recovery {
	switch k {
	case Payment:
		return core.Rollback
	case Refund:
		return core.Resume
	default:
		return core.Park
	}
}

// Entry is an entry of the ledger of the example apps.
type Entry struct {
	Operation string
	Kind      Kind
	Amount    string
}

// Ledger reads all entries of the ledger in the database at a URL, past the proxies.
func Ledger(ctx context.Context, url string) (entries []Entry, err error) {
	var e Entry
	err = Ask(ctx, url, []any{&e.Operation, &e.Kind, &e.Amount}, func() { entries = append(entries, e) },
		`SELECT operation_id, kind, amount FROM ledger`)
	return entries, err
}

// Ask runs a query in the database at a URL, and calls row after each row has been read into the given places.
func Ask(ctx context.Context, url string, into []any, row func(), query string, args ...any) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, func() error {
		row()
		return nil
	})
	return err
}
