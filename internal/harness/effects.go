package harness

import (
	"context"

	"github.com/jackc/pgx/v5"
)

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

// Charges counts what the provider of the example apps has charged, by operation.
func Charges(ctx context.Context, url string) (counts map[string]int, err error) {
	counts = map[string]int{}
	var operation string
	var count int
	err = Ask(ctx, url, []any{&operation, &count}, func() { counts[operation] = count },
		`SELECT operation, count(*) FROM provider_charges GROUP BY 1`)
	return counts, err
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
