package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core/idemclient"
)

// Journal keeps the intents of an app that calls others, in the table idempotency_intent of its own database: a caller
// that was killed repeats with the same key. Any number of processes may use it. It is the app's as a client, and has
// nothing to do with the records of requests that the app answers.
type Journal struct{ store *Store }

var _ idemclient.Journal = (*Journal)(nil)

// NewJournal returns the journal in db, which must have the tables of [Migrate]. Where db has a store, call New first:
// the journal then waits in the same line for SQLite's one writer. Errors: those of New.
func NewJournal(db *gorm.DB) (*Journal, error) {
	s, err := storeOf(db)
	if err != nil {
		return nil, fmt.Errorf("idem: gormstore.NewJournal: %w", err)
	}
	return &Journal{store: s}, nil
}

const planIntent = `INSERT INTO {schema}.idempotency_intent (intent, idempotency_key, planned_at)
VALUES ($1{text}, $2{text}, {now}) ON CONFLICT (intent) DO NOTHING`

// Plan puts an intent and its key into the caller's transaction: they are there if and only if the caller's rows are.
// Send the command after COMMIT; until then the journal would wait for it. Planning again changes nothing.
//
// Errors: idemclient.ErrNoIntent; tx is no transaction; [ErrOutsideTransaction]; the database's.
func (j *Journal) Plan(tx *gorm.DB, intent string) error {
	entry, err := idemclient.NewEntry(intent)
	if err != nil {
		return err
	}
	ctx, conn := tx.Statement.Context, tx.Statement.ConnPool
	if _, ok := conn.(gorm.TxCommitter); !ok {
		return errors.New("idem: gormstore.Journal.Plan: the intent must commit with your rows: pass the tx of " +
			"db.Transaction, or gormstore.Tx(ctx)")
	}
	if b := bindingFrom(ctx); b != nil && b.raw != conn && ctx.Value(outsideKey{}) == nil {
		return ErrOutsideTransaction
	}
	// Past GORM, whose logger would print the key.
	text, err := j.store.names.text(ctx, conn, planIntent)
	if err == nil {
		_, err = conn.ExecContext(ctx, text, entry.Intent, entry.Key)
	}
	return journalError(err)
}

// beginIntent makes an entry, or notes the command of one that was planned; what stands is not changed.
const beginIntent = `INSERT INTO {schema}.idempotency_intent AS i
	(intent, idempotency_key, hash_version, command_hash, planned_at, begun_at)
SELECT $1{text}, $2{text}, $3{int}, $4{bytes}, c.now, CASE WHEN $3{int} IS NOT NULL THEN c.now END
FROM (SELECT {now} AS now) c WHERE true
ON CONFLICT (intent) DO UPDATE SET
	hash_version = coalesce(i.hash_version, excluded.hash_version),
	command_hash = coalesce(i.command_hash, excluded.command_hash),
	begun_at = coalesce(i.begun_at, excluded.begun_at)
RETURNING ` + intentColumns

const intentColumns = `intent, idempotency_key, hash_version, command_hash, begun_at, ended_at IS NOT NULL, {now}`

// Begin implements [idemclient.Journal], in one statement.
func (j *Journal) Begin(ctx context.Context, e idemclient.Entry) (found idemclient.Entry, err error) {
	var version, sum any // NULL
	if e.Command.Version != 0 {
		version, sum = e.Command.Version, e.Command.Sum[:]
	}
	err = j.store.write(ctx, func(q querier) error {
		row := j.store.queryRow(ctx, q, beginIntent, e.Intent, e.Key, version, sum)
		found, err = scanIntent(row.Scan)
		return err
	})
	return found, journalError(err)
}

const endIntent = `UPDATE {schema}.idempotency_intent AS i SET ended_at = {now} WHERE i.intent = $1{text} AND i.ended_at IS NULL`

// End implements [idemclient.Journal].
func (j *Journal) End(ctx context.Context, intent string) error {
	return journalError(j.store.write(ctx, func(q querier) error {
		_, err := j.store.exec(ctx, q, endIntent, intent)
		return err
	}))
}

const pendingIntents = `SELECT ` + intentColumns + ` FROM {schema}.idempotency_intent i
WHERE i.ended_at IS NULL AND i.intent > $1{text} ORDER BY i.intent LIMIT $2`

// Pending lists the intents without a definite answer, by name: what a restarted caller has to send, or send again, with
// the requests that it makes of its own rows. after is the last name of the page before, "" for the first page.
func (j *Journal) Pending(ctx context.Context, after string, limit int) (entries []idemclient.Entry, err error) {
	rows, err := j.store.query(ctx, j.store.pool, pendingIntents, after, limit)
	if err != nil {
		return nil, journalError(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		entry, err := scanIntent(rows.Scan)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, rows.Err()
}

// MinIntentKeep is the shortest time for which an intent that has ended is kept: 24 h.
const MinIntentKeep = 24 * time.Hour

const forgetIntents = `DELETE FROM {schema}.idempotency_intent AS i WHERE i.intent IN (
	SELECT e.intent FROM {schema}.idempotency_intent e WHERE e.ended_at <= {now} - $1{µs} ORDER BY e.ended_at LIMIT $2 {skip locked})`

// Sweep removes intents that ended longer ago than keep, at most limit of them, and returns how many. It never removes
// one that is pending. An intent that is gone is new when it comes again, and gets a new key: keep is how long a caller
// may repeat an intent that has ended, at least [MinIntentKeep]. It is safe in all instances at once; the app calls it
// when it likes.
func (j *Journal) Sweep(ctx context.Context, keep time.Duration, limit int) (n int, err error) {
	if keep < MinIntentKeep {
		return 0, fmt.Errorf("idem: gormstore.Journal.Sweep: keep is %v; use at least %v", keep, MinIntentKeep)
	}
	err = j.store.inTx(ctx, func(q querier) error {
		removed, err := j.store.exec(ctx, q, forgetIntents, keep.Microseconds(), limit)
		n = int(removed)
		return err
	})
	if err != nil {
		return 0, journalError(err)
	}
	return n, nil
}

func scanIntent(scan func(...any) error) (e idemclient.Entry, err error) {
	var version sql.NullInt16
	var sum []byte
	var begun, now instant
	var ended flag
	if err := scan(&e.Intent, &e.Key, &version, &sum, &begun, &ended, &now); err != nil {
		return idemclient.Entry{}, err
	}
	e.Command.Version, e.Ended = version.Int16, bool(ended)
	if copy(e.Command.Sum[:], sum) != len(e.Command.Sum) && version.Valid {
		return idemclient.Entry{}, fmt.Errorf("idem: gormstore: the intent %q has a command hash of %d bytes", e.Intent, len(sum))
	}
	if !begun.IsZero() {
		e.Age = max(0, now.Sub(begun.Time))
	}
	return e, nil
}

func journalError(err error) error {
	if err != nil && noSuchTable(err) {
		return fmt.Errorf("idem: gormstore: the table idempotency_intent is missing: run gormstore.Migrate: %w", err)
	}
	return err
}
