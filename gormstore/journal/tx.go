package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// What a journal writes in the caller's own transaction: the intent and the caller's rows commit together (C-6).

var (
	// ErrOtherDatabase is the error of [Journal.Plan] and [Journal.Done] if the transaction belongs to another database than
	// the journal. The intent and the caller's rows could not commit together.
	ErrOtherDatabase = errors.New("idem: journal: this transaction belongs to another database than the journal; make the " +
		"journal with the database that has your rows")

	// ErrNotPending is the error of [Journal.Done] if the intent has ended before, or is not in the journal. Another caller
	// has written the rows of its outcome: roll back, and compare your own answer with those rows. If it is a success, and the
	// rows say that the command was refused, the money has moved: a person must correct the rows.
	ErrNotPending = errors.New("idem: journal: the intent is not pending: it has been ended before, or was never planned")
)

// Plan writes an intent and its key in the caller's transaction: they commit together with the caller's rows. Send the
// command after COMMIT; before it, the client would wait for the transaction. A second Plan changes nothing.
//
// Errors: intents.ErrNoIntent; tx is not a transaction; [gormstore.ErrOutsideTransaction]; [ErrOtherDatabase]; the
// database's.
func (j *Journal) Plan(tx *gorm.DB, intent string) error {
	if err := intents.Planned(tx.Statement.Context, intent); err != nil {
		return err
	}
	_, err := j.execIn(tx, planIntent, intent, j.keyOf(intent))
	return err
}

// Done ends an intent in the caller's transaction: the end commits together with the rows in which the caller keeps the
// outcome. The client must not end the intent itself: set idemclient.Config.CallerEnds. If several callers end an intent
// at once, one commits; the others get ErrNotPending, and must roll back.
//
// Errors: [ErrNotPending]; store.ErrClock, see [MaxClockSkew]; tx is not a transaction; [gormstore.ErrOutsideTransaction];
// [ErrOtherDatabase]; the database's.
func (j *Journal) Done(tx *gorm.DB, intent string) error {
	ended, err := j.execIn(tx, doneIntent, j.inWindow(intent)...)
	if err == nil && ended == 0 {
		_, err = j.db.ClockWithin(tx.Statement.Context, tx.Statement.ConnPool, j.window())
		err = cmp.Or(err, ErrNotPending)
	}
	return err
}

// execIn runs a statement in the caller's transaction, and returns how many rows it has changed. The statement changes
// nothing unless its first parameter names the database that it runs in. So the check needs no further statement.
func (j *Journal) execIn(tx *gorm.DB, name txn.Statement, args ...any) (int64, error) {
	ctx, conn := tx.Statement.Context, tx.Statement.ConnPool
	if _, ok := conn.(gorm.TxCommitter); !ok {
		return 0, errors.New("idem: journal: the intent must commit with your rows: pass the tx of db.Transaction, " +
			"or gormstore.Tx(ctx)")
	}
	if b := txn.BindingFrom(ctx); b != nil && b.Raw != conn && !txn.IsOutside(ctx) {
		return 0, gormstore.ErrOutsideTransaction
	}
	if tx.Dialector.Name() != j.db.Dialect.Name {
		return 0, ErrOtherDatabase
	}
	if err := j.check(ctx); err != nil {
		return 0, err
	}
	for range 2 {
		own, err := j.ownDatabase(ctx)
		switch {
		case err != nil:
			return 0, explained(err)
		case own == "" && !same(tx.Dialector, j.db.Gorm.Dialector): // SQLite in memory has no name
			return 0, ErrOtherDatabase
		}
		// Past GORM, whose logger would print the key.
		n, err := j.db.Exec(ctx, conn, name, append([]any{own}, args...)...)
		if err != nil || n > 0 {
			return n, explained(err)
		}
		var here string
		if here, err = j.askDatabase(ctx, conn); err != nil || here == own {
			return 0, err
		}
		j.database.Store(nil) // the journal's server may have restarted since it was asked
	}
	return 0, ErrOtherDatabase
}

// ownDatabase is what whichDatabase returns for the journal's own database.
func (j *Journal) ownDatabase(ctx context.Context) (string, error) {
	if known := j.database.Load(); known != nil {
		return *known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, databasePatience) // the caller's transaction may hold the last connection
	defer cancel()
	own, err := j.askDatabase(ctx, j.db.Pool)
	if err != nil {
		return "", fmt.Errorf("idem: journal: which database the journal is in: %w", err)
	}
	j.database.Store(&own)
	return own, nil
}

// databasePatience is how long the journal waits to learn which database its pool belongs to.
const databasePatience = 5 * time.Second

func (j *Journal) askDatabase(ctx context.Context, q txn.Querier) (name string, err error) {
	err = j.db.QueryRow(ctx, q, whichDatabase).Scan(&name)
	return name, err
}

// same reports that two sessions come from one gorm.Open.
func same(a, b gorm.Dialector) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}
