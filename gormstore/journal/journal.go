// Package journal keeps the intents of an app that is a client of other services, in the app's own database: for each
// intent its name, its one key, and the hash of its command. It does not keep the requests.
//
//	j, err := journal.New(db)
//	client, err := idemclient.New(idemclient.Config{Journal: j})
//
// core/idemclient takes the keys from the journal, and sends. An app that was killed finds its intents without an answer
// by [Journal.Pending], makes their requests again from its own rows, and sends them with the same keys.
// [gormstore.Migrate] makes the table, and docs/client.md shows the whole loop.
package journal

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Journal keeps the intents of an app that calls other services, in the table idempotency_intent of the app's own
// database. So a caller that was killed repeats its call with the same key. Any number of processes may use it. It is for
// an app as a client, and is independent of the records of requests that the app answers.
type Journal struct {
	db       *txn.Database
	secret   *intents.Secret  // nil: keys are random
	now      func() time.Time // this process's clock
	skew     time.Duration    // how far the database's may be from it
	database atomic.Pointer[string]

	validated txn.Validated
	ended     txn.SweepCursor // of Sweep
}

var _ intents.Journal = (*Journal)(nil)

// Option changes a journal.
type Option func(*Journal)

// KeysOf derives the keys of new intents from their names and a secret, instead of making them at random. If the journal
// was lost, restored from a backup or swept, an intent that comes again gets its old key. The provider recognises the key
// as long as it keeps keys.
//
// This has two costs. An intent's name can be used only once: for the provider, a name that comes again is the same
// command. And the outcome of every intent is uncertain from its first attempt until there is an answer, because the
// journal cannot show that a key was never used.
//
// All processes of a journal need the same secret, for ever. An intent that already has a key keeps it.
func KeysOf(secret *intents.Secret) Option { return func(j *Journal) { j.secret = secret } }

// MaxClockSkew is how far the database's clock and this process's may be apart (T-5): 1 min to 12 h, default 1 h. While they
// are further apart, no intent begins, ends or is swept: the error is store.ErrClock.
func MaxClockSkew(skew time.Duration) Option { return func(j *Journal) { j.skew = skew } }

// New returns the journal in db, which must have the tables of [gormstore.Migrate], and installs the write guard there.
// If db also gets a store, call gormstore.New first: the journal then shares the store's schema and SQLite's one writer.
// Errors: as for [gormstore.New], except that no file is locked; a MaxClockSkew that is out of its bounds.
func New(db *gorm.DB, opts ...Option) (*Journal, error) {
	d, err := txn.Of(db, gormstore.WriteGuard())
	if err != nil {
		return nil, fmt.Errorf("idem: journal.New: %w", err)
	}
	j := &Journal{db: d, now: time.Now, skew: txn.DefaultClockSkew}
	for _, opt := range opts {
		opt(j)
	}
	if err := txn.CheckClockSkew(j.skew); err != nil {
		return nil, fmt.Errorf("idem: journal.New: %w", err)
	}
	// The name of the database is asked for now, because later the callers' transactions may hold all connections of the
	// pool. If this fails, it is asked for again.
	_, _ = j.ownDatabase(context.Background())
	_ = j.check(context.Background())
	return j, nil
}

// keyOf makes the key of a new intent.
func (j *Journal) keyOf(intent string) string {
	if j.secret != nil {
		return j.secret.Key(intent)
	}
	return intents.NewKey()
}

// Begin implements [intents.Journal], in one statement.
func (j *Journal) Begin(ctx context.Context, e intents.Entry) (intents.Entry, error) {
	if err := j.check(ctx); err != nil {
		return intents.Entry{}, err
	}
	var version, sum, by any // NULL
	brought := e.Key != ""
	if e.Command.Version != 0 {
		version, sum = e.Command.Version, e.Command.Sum[:]
	}
	// Whoever writes begun_by first knows that nothing was sent before, and by asking again that nobody has come since. The
	// caller that brings its own key takes that place, also without a command: nobody knows what was sent with the key.
	if version != nil || brought {
		by = []byte(cmp.Or(e.By, rand.Text()))
	}
	if !brought {
		e.Key = j.keyOf(e.Intent)
	}
	var found intentRow
	err := j.db.Write(ctx, func(q txn.Querier) error {
		return j.begin(ctx, q, &found, e.Intent, e.Key, version, sum, by)
	})
	if err != nil {
		return intents.Entry{}, explained(err)
	}
	// First means that nobody else has sent the key. That cannot be known if the caller brought its own key, or if keys are
	// derived, because the journal may have been lost.
	found.First = by != nil && bytes.Equal(found.begunBy, by.([]byte)) && !brought && j.secret == nil
	return found.Entry, nil
}

// begin runs beginIntent on q.
func (j *Journal) begin(ctx context.Context, q txn.Querier, found *intentRow, args ...any) error {
	var at txn.Server
	row := j.db.QueryRow(ctx, q, beginIntent, j.inWindow(args...)...)
	err := j.scan(found, func(into ...any) error { return row.Scan(append(into, &at.PID, &at.Started)...) })
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return store.ErrClock
	case err != nil:
		return err
	}
	return j.db.ConfirmWritten(ctx, at)
}

// Find implements [intents.Journal].
func (j *Journal) Find(ctx context.Context, intent string) (intents.Entry, bool, error) {
	var found intentRow
	err := j.db.OnPool(ctx, func(q txn.Querier) error { return j.scan(&found, j.db.QueryRow(ctx, q, findIntent, intent).Scan) })
	if !errors.Is(err, sql.ErrNoRows) {
		return found.Entry, err == nil, explained(err)
	}
	would := intents.Entry{Intent: intent}
	if j.secret != nil {
		would.Key = j.secret.Key(intent)
	}
	return would, false, nil
}

// End implements [intents.Journal].
func (j *Journal) End(ctx context.Context, intent string) error {
	return explained(j.db.Write(ctx, func(q txn.Querier) error {
		n, err := j.db.Exec(ctx, q, endIntent, j.inWindow(intent)...)
		if err == nil && n == 0 {
			_, err = j.db.ClockWithin(ctx, q, j.window())
		}
		return err
	}))
}

// window is what the database's clock may show now.
func (j *Journal) window() store.Window { return txn.Around(j.now(), j.skew) }

// inWindow are the arguments of a statement that does nothing outside of the window.
func (j *Journal) inWindow(args ...any) []any {
	w := j.window()
	return append(args, txn.Micros(w.From), txn.Latest(w))
}

// Pending lists the intents without a definite answer, sorted by name. A restarted caller has to send these, perhaps
// again, with requests that it makes from its own rows. after is the last name of the page before, "" for the first page.
func (j *Journal) Pending(ctx context.Context, after string, limit int) (entries []intents.Entry, err error) {
	err = j.db.OnPool(ctx, func(q txn.Querier) error {
		entries = nil
		return j.db.Each(ctx, q, pendingIntents, func(scan func(...any) error) error {
			var row intentRow
			err := j.scan(&row, scan)
			entries = append(entries, row.Entry)
			return err
		}, after, limit)
	})
	return entries, explained(err)
}

// MinKeep is the shortest time for which [Journal.Sweep] keeps an intent that has ended: 24 h.
const MinKeep = 24 * time.Hour

// Sweep deletes at most limit intents that ended longer than keep ago, and returns how many. It never deletes a pending
// intent. If a deleted intent comes again, it is new and gets a new key (with [KeysOf] the old one). So keep is how long
// a caller may repeat an intent that has ended. Less than [MinKeep] is an error. The app decides when to call Sweep; all
// instances may call it at once.
func (j *Journal) Sweep(ctx context.Context, keep time.Duration, limit int) (n int, err error) {
	if keep < MinKeep {
		return 0, fmt.Errorf("idem: journal: Sweep: keep is %v; use at least %v", keep, MinKeep)
	}
	w := j.window()
	if _, err := j.db.ClockWithin(ctx, j.db.Pool, w); err != nil {
		return 0, explained(err)
	}
	n, err = j.db.Forget(ctx, &j.ended, forgetIntents, limit, w, keep.Microseconds())
	if err != nil {
		return 0, explained(err)
	}
	return n, nil
}

// intentRow is a row of the journal.
type intentRow struct {
	intents.Entry
	begunBy []byte
}

func (j *Journal) scan(r *intentRow, scan func(...any) error) error {
	var version sql.NullInt16
	var sum []byte
	var begun, now txn.Moment
	var ended txn.Flag
	if err := scan(&r.Intent, &r.Key, &version, &sum, &begun, &r.begunBy, &ended, &now); err != nil {
		return err
	}
	r.Command.Version, r.Ended = version.Int16, bool(ended)
	if copy(r.Command.Sum[:], sum) != len(r.Command.Sum) && version.Valid {
		return fmt.Errorf("idem: journal: the intent %q has a command hash of %d bytes", r.Intent, len(sum))
	}
	if !begun.Valid {
		return nil
	}
	if r.Age = txn.Time(now).Sub(txn.Time(begun)); r.Age <= -aLittle || !j.window().Has(txn.Time(now)) {
		r.Age = intents.UnknownAge
	}
	r.Age = max(0, r.Age)
	return nil
}

// aLittle is by how much a clock may go back that is set right all the time.
const aLittle = time.Minute

func explained(err error) error {
	if err != nil && txn.NoSuchTable(err) {
		return fmt.Errorf("idem: journal: the table idempotency_intent is missing: run gormstore.Migrate: %w", err)
	}
	return err
}

// rights are those of a client, without its Sweep.
var rights = txn.Rights{"idempotency_intent": "SELECT, INSERT, UPDATE"}

// Validate checks that the server and the table keep the intents, and that the role has the rights that a journal needs
// (F-5): an intent that a crash loses gets another key, and its command is carried out twice. One error names everything
// that is wrong. Call it when the app starts; Plan and Begin refuse what Validate refuses.
func (j *Journal) Validate(ctx context.Context) error {
	return j.validated.Validate(ctx, j.db, rights, j.db.Beside(j.try))
}

// check runs Validate until it has passed once.
func (j *Journal) check(ctx context.Context) error {
	return j.validated.Once(ctx, j.db, rights, j.db.Beside(j.try))
}

// The statements, in internal/dialect/statements/intents.sql.
const (
	beginIntent    txn.Statement = "beginIntent"
	findIntent     txn.Statement = "findIntent"
	endIntent      txn.Statement = "endIntent"
	pendingIntents txn.Statement = "pendingIntents"
	forgetIntents  txn.Statement = "forgetIntents"
	whichDatabase  txn.Statement = "whichDatabase"
	planIntent     txn.Statement = "planIntent"
	doneIntent     txn.Statement = "doneIntent"
)
