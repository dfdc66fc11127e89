package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/harness"
)

// The rows of the apps have a UNIQUE over the operation, the second line: a command that is carried out twice books once.
// The long run must see the second execution all the same. So a trigger records every row that a transaction tries to
// insert, in that transaction, before the UNIQUE is checked.

// witness creates the triggers.
func (s *soak) witness() {
	s.t.Helper()
	statements := []string{
		`CREATE TABLE soak_witness (tried text NOT NULL, name text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())`,
		`CREATE FUNCTION soak_witness() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO soak_witness VALUES (TG_TABLE_NAME, to_jsonb(NEW) ->> TG_ARGV[0]);
			RETURN NEW;
		END $$`,
	}
	for table, column := range map[string]string{
		"payments": "operation_id", "refunds": "operation_id", "payouts": "operation_id", "ledger": "operation_id",
		"provider_keys": "key",
	} {
		statements = append(statements, fmt.Sprintf(
			`CREATE TRIGGER soak_witness BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION soak_witness('%s')`, table, column))
	}
	s.database.Exec(statements...)
}

// effects has everything that an operation has done.
type effects struct {
	carriedOut map[string]int // by table: committed transactions that tried to insert a row
	entries    []string       // of the ledger: kind and amount
	charges    int            // by the provider
	calls      int            // to the provider; a second call is a repeat without a charge
}

// effects counts the effects of all operations.
func (s *soak) effects(ctx context.Context) (map[string]*effects, error) {
	all := map[string]*effects{}
	of := func(operation string) *effects {
		if all[operation] == nil {
			all[operation] = &effects{carriedOut: map[string]int{}}
		}
		return all[operation]
	}
	var operation, text string
	var count int
	err := s.ask(ctx, []any{&text, &operation, &count}, func() { of(operation).carriedOut[text] = count },
		`SELECT tried, name, count(*) FROM soak_witness WHERE tried <> 'provider_keys' GROUP BY 1, 2`)
	if err != nil {
		return nil, err
	}
	ledger, err := harness.Ledger(ctx, s.database.URL())
	if err != nil {
		return nil, err
	}
	for _, e := range ledger {
		of(e.Operation).entries = append(of(e.Operation).entries, string(e.Kind)+" "+e.Amount)
	}
	charges, err := harness.Charges(ctx, s.database.URL())
	if err != nil {
		return nil, err
	}
	for operation, count := range charges {
		of(operation).charges = count
	}
	err = s.ask(ctx, []any{&operation, &count}, func() { of(operation).calls = count },
		`SELECT operation, count(*) FROM soak_witness JOIN provider_keys ON key = name
			JOIN provider_charges c ON c.id = charge_id WHERE tried = 'provider_keys' GROUP BY 1`)
	return all, err
}

// ask runs a query, past the proxies.
func (s *soak) ask(ctx context.Context, into []any, row func(), query string, args ...any) error {
	return harness.Ask(ctx, s.database.URL(), into, row, query, args...)
}

// evidence returns the rows and log lines of an operation.
func (s *soak) evidence(operation string) string {
	var b strings.Builder
	var line string
	for _, query := range []string{
		`SELECT (to_jsonb(r) - 'scope' - 'headers' - 'body')::text || ' ' || coalesce(convert_from(body, 'UTF8'), '')
			FROM idempotency_record r WHERE encode(id, 'hex') = $1`,
		`SELECT to_jsonb(w)::text FROM soak_witness w WHERE name = $1 ORDER BY at`,
		`SELECT to_jsonb(l)::text FROM ledger l WHERE operation_id = $1`,
		`SELECT to_jsonb(c)::text FROM provider_charges c WHERE operation = $1`,
	} {
		err := s.ask(s.t.Context(), []any{&line}, func() { b.WriteString("\t" + line + "\n") }, query, operation)
		require.NoError(s.t, err)
	}
	for _, in := range s.instances {
		b.WriteString(in.Logged(operation))
	}
	return b.String()
}
