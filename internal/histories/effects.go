package histories

import (
	"context"
	"slices"
	"strings"

	"github.com/auth19/idem/internal/harness"
)

// The rows of the apps have a UNIQUE over the operation, the second line: a command that is carried out twice books once.
// The count must see the second execution all the same. So a CHECK records every row that a transaction tries to insert, in
// that transaction, before the UNIQUE is checked. It is no trigger: gormstore.CreateOnce undoes what those have done. A row
// that is updated is checked again, under the same id; that of a second execution has an id of its own.
var witness = []string{
	`CREATE TABLE witness (tried text NOT NULL, name text NOT NULL, id text NOT NULL,
		at timestamptz NOT NULL DEFAULT clock_timestamp())`,
	`CREATE FUNCTION witness(tried text, name text, id text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO witness VALUES (tried, name, id);
		RETURN true;
	END $$`,
	`ALTER TABLE payments ADD CHECK (witness('payments', operation_id, id::text))`,
	`ALTER TABLE refunds ADD CHECK (witness('refunds', operation_id, id::text))`,
	`ALTER TABLE payouts ADD CHECK (witness('payouts', operation_id, id::text))`,
	`ALTER TABLE ledger ADD CHECK (witness('ledger', operation_id, id::text))`,
	`CREATE FUNCTION witness_call() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM witness('provider_keys', NEW.key, clock_timestamp()::text);
		RETURN NEW;
	END $$`,
	`CREATE TRIGGER witness BEFORE INSERT ON provider_keys FOR EACH ROW EXECUTE FUNCTION witness_call()`,
}

// effects has everything that an operation has done.
type effects struct {
	carriedOut map[string]int // by table: committed transactions that tried to insert a row
	entries    []string       // of the ledger: kind and amount
	charges    int            // by the provider
	calls      int            // to the provider; a second call is a repeat without a charge
}

// effects counts the effects of all operations, past the proxies.
func (w *world) effects(ctx context.Context) (map[string]*effects, error) {
	all := map[string]*effects{}
	of := func(operation string) *effects {
		if all[operation] == nil {
			all[operation] = &effects{carriedOut: map[string]int{}}
		}
		return all[operation]
	}
	for _, database := range w.databases {
		ledger, err := harness.Ledger(ctx, database.URL())
		if err != nil {
			return nil, err
		}
		for _, e := range ledger {
			of(e.Operation).entries = append(of(e.Operation).entries, string(e.Kind)+" "+e.Amount)
		}
		var what, operation string
		var count int
		err = harness.Ask(ctx, database.URL(), []any{&what, &operation, &count}, func() {
			switch e := of(operation); what {
			case "charges":
				e.charges += count
			case "calls":
				e.calls += count
			default:
				e.carriedOut[what] += count
			}
		}, `SELECT 'charges', operation, count(*) FROM provider_charges GROUP BY 2
UNION ALL SELECT 'calls', operation, count(*) FROM witness JOIN provider_keys ON key = name
	JOIN provider_charges c ON c.id = charge_id WHERE tried = 'provider_keys' GROUP BY 2
UNION ALL SELECT tried, name, count(DISTINCT witness.id) FROM witness WHERE tried <> 'provider_keys' GROUP BY 1, 2`)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// freed reports whether an attempt of the operation says that it has freed its key although its lease had run out.
func (w *world) freed(operation string) bool {
	return slices.ContainsFunc(w.instances, func(in *instance) bool {
		return strings.Contains(in.Logged(operation), "idem: freed")
	})
}

// evidence returns the rows and log lines of an operation.
func (w *world) evidence(ctx context.Context, operation string) (string, error) {
	var b strings.Builder
	var line string
	err := harness.Ask(ctx, w.databases[0].URL(), []any{&line}, func() { b.WriteString("\t" + line + "\n") },
		`SELECT (to_jsonb(r) - 'scope' - 'headers' - 'body')::text || ' ' || coalesce(convert_from(body, 'UTF8'), '')
	FROM idempotency_record r WHERE encode(id, 'hex') = $1
UNION ALL (SELECT to_jsonb(w)::text FROM witness w WHERE name = $1 ORDER BY at)
UNION ALL SELECT to_jsonb(l)::text FROM ledger l WHERE operation_id = $1
UNION ALL SELECT to_jsonb(c)::text FROM provider_charges c WHERE operation = $1`, operation)
	for _, in := range w.instances {
		b.WriteString(in.Logged(operation))
	}
	return b.String(), err
}
