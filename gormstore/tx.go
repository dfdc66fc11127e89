package gormstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
)

// tx is a transaction with an app's statements in it: a connection of its own, on which the store says BEGIN and COMMIT
// itself. database/sql's own transactions tie COMMIT to a context; this one is never cancelled.
type tx struct {
	store *Store
	conn  *conn
	entry entry
	pid   uint32      // of the server's process; 0 where it is not known
	asked atomic.Bool // the handler has asked for it

	marked bool // the library's savepoint was set

	ending  sync.Mutex // one end at a time: Commit, Rollback, the deadline
	ended   bool
	checked bool  // SQLite: the savepoint was there, see stillOpen
	gone    bool  // PostgreSQL: the savepoint was not
	lost    error // why nobody knows what has stayed: see undo
}

// entry is what a transaction writes beside the app's rows, so that it is known afterwards whether it has committed: the
// answer of an attempt, the result of a step, the marker of a message.
type entry interface {
	// lock is the advisory lock that the transaction holds; PostgreSQL.
	lock() int64
	// trace is a query that finds a row from the first statement of the transaction on until it has ended; SQLite.
	trace() (query string, args []any)
	// committed reports whether the entry is there, once the transaction has ended.
	committed(ctx context.Context, s *Store, q querier) (bool, error)
	// touch is a statement that changes nothing of a committed entry: see touch.
	touch() (statement string, args []any)
	// lose makes it known that nobody knows what has stayed of the transaction, in another one. Where the entry was
	// undone it is written again; where somebody else's is there by now, it stays.
	lose(ctx context.Context, s *Store, q querier) error
	// leave gives back what was reserved for the transaction in this process.
	leave(s *Store)
}

// rollbackTx is the transaction of a Rollback attempt.
type rollbackTx struct {
	*tx
	ticket core.Ticket
}

// Begin implements [core.Transactor]: BEGIN, the claim, a savepoint.
func (s *Store) Begin(ctx context.Context, c core.Claim) (core.Tx, core.Claimed, error) {
	if s.embedded != nil { // a repeat does not wait for the writer either
		if claimed, err := s.peek(ctx, c); err != nil || isThere(claimed) {
			return nil, claimed, err
		}
		if !s.embedded.reserve(c.ID) {
			return nil, core.Claimed{Busy: true}, nil
		}
	}
	t, claimed, err := s.enterAndBegin(ctx, c)
	if t != nil {
		return rollbackTx{t, claimed.Record.Ticket}, claimed, nil
	}
	if s.embedded != nil {
		s.embedded.unreserve(c.ID)
	}
	if errors.Is(err, errRace) { // somebody else keeps winning
		return nil, core.Claimed{Busy: true}, nil
	}
	return nil, claimed, err
}

func (s *Store) enterAndBegin(ctx context.Context, c core.Claim) (t *tx, claimed core.Claimed, err error) {
	if claimed, err := s.enterOrLook(ctx, c); err != nil || isThere(claimed) {
		return nil, claimed, err
	}
	err = retry(ctx, func() (err error) {
		t, claimed, err = s.begin(ctx, c)
		return err
	})
	if t == nil {
		s.leaveAttempt()
	}
	return t, claimed, err
}

func (s *Store) begin(ctx context.Context, c core.Claim) (_ *tx, claimed core.Claimed, err error) {
	own, err := s.pool.Conn(ctx)
	if err != nil {
		return nil, core.Claimed{}, err
	}
	keep := false
	defer func() {
		if !keep {
			rollback(own)
		}
	}()
	if s.dialect == postgres {
		if err := s.probeConnectionCheck(ctx, own); err != nil {
			return nil, core.Claimed{}, err
		}
	}
	if _, err := own.ExecContext(ctx, s.dialect.begin); err != nil {
		return nil, core.Claimed{}, err
	}
	b := backend{idle: guardOf(c.Deadline)}
	if claimed, err = s.claim(ctx, own, c, &b); err != nil || !claimed.Won {
		return nil, claimed, err
	}
	if _, err := own.ExecContext(ctx, "SAVEPOINT "+savepoint); err != nil {
		return nil, core.Claimed{}, err
	}
	keep = true
	t := s.newTx(own, answer{claimed.Record.Ticket, c})
	t.pid, t.marked = b.pid, true
	return t, claimed, nil
}

func (s *Store) newTx(own *sql.Conn, e entry) *tx {
	t := &tx{store: s, entry: e}
	t.conn = newConn(own, s, t.alive)
	return t
}

// probeConnectionCheck finds out once whether the server can look after a client that went away (PostgreSQL 14).
func (s *Store) probeConnectionCheck(ctx context.Context, c *sql.Conn) error {
	if s.connectionCheck.Load() != 0 {
		return nil
	}
	_, err := c.ExecContext(ctx, "SELECT pg_catalog.set_config('client_connection_check_interval', '500', true)")
	switch {
	case err == nil:
		s.connectionCheck.Store(1)
	case slices.Contains([]string{"42704", "22023", "42501"}, sqlState(err)):
		s.connectionCheck.Store(2) // an unknown parameter, not for this system, not for this user
	default:
		return err
	}
	return nil
}

// endTimeout bounds a ROLLBACK. A connection that does not answer is dropped, and the server rolls back by itself.
const endTimeout = 5 * time.Second

// rollback ends the transaction on c, if there is one, and gives the connection back.
func rollback(c *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if _, err := c.ExecContext(ctx, "ROLLBACK"); err != nil {
		discard(c) // never a connection with an open transaction back into the pool
		return
	}
	_ = c.Close()
}

// alive reports whether the transaction is still there on SQLite: outside it, what it has written first is not.
func (t *tx) alive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	statement, args := t.entry.trace()
	var one int
	return t.store.queryRow(ctx, t.conn.sql, statement, args...).Scan(&one) == nil
}

// holdsWriter reports that SQLite's one writer is the transaction's.
func (t *tx) holdsWriter() bool {
	t.conn.mu.RLock()
	defer t.conn.mu.RUnlock()
	return t.store.embedded != nil && !t.conn.over
}

// end shuts the handler out and runs fn, once; later calls get errOver.
func (t *tx) end(fn func() error) error {
	t.ending.Lock()
	defer t.ending.Unlock()
	if t.ended {
		return errOver
	}
	t.ended = true
	t.conn.end()
	return fn()
}

// leave gives everything back. The connection must be out of its transaction, or discarded.
func (t *tx) leave() {
	t.entry.leave(t.store)
	t.store.leaveAttempt()
}

// undo rolls back and leaves. It fails with core.ErrEnded where the handler has ended the transaction itself: what it
// wrote before or after that may have stayed.
func (t *tx) undo() error {
	if !t.rollback() {
		t.lost = t.lose()
	}
	t.leave()
	return t.lost
}

// rollbackOurs divides by zero, and rolls nothing back, unless the transaction is the one that was begun.
const (
	rollbackOurs   = "SELECT 1 / (" + isOurs + ")::int; ROLLBACK"
	divisionByZero = "22012"

	aborted       = "25P02"
	noSavepoint   = "3B001"
	noTransaction = "25P01"
)

// rollback ends the transaction. It is false where the handler had ended it before.
func (t *tx) rollback() (ours bool) {
	c := t.conn.sql
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if t.store.dialect == sqlite {
		if ours = t.checked || t.oursSQLite(ctx); ctx.Err() != nil {
			discard(c)
		} else {
			rollback(c)
		}
		return ours
	}
	_, err := c.ExecContext(ctx, rollbackOurs)
	switch {
	case err == nil:
		_ = c.Close()
	case sqlState(err) == "": // broken, or busy
		discard(c)
	case sqlState(err) == aborted && t.marked: // its own savepoint tells it from another one
		_, missing := c.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+savepoint)
		t.gone = t.gone || sqlState(missing) == noSavepoint
		rollback(c)
	default: // aborted, and so open, as a failed statement leaves it; or another transaction, or none
		rollback(c)
	}
	return sqlState(err) != divisionByZero && !t.gone
}

// oursSQLite reports whether the library's savepoint is there, or else SQLite itself has ended the transaction, with the
// error of a statement: nothing was sent after it.
func (t *tx) oursSQLite(ctx context.Context) bool {
	_, err := t.conn.sql.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+savepoint)
	if err == nil || ctx.Err() != nil { // a busy connection is closed
		return true
	}
	return t.conn.mayHaveFailed() && !t.alive(ctx)
}

// lose makes it known that nobody knows what has stayed: for as long as endPatience, because the key is free until then
// where the entry was undone.
func (t *tx) lose() error {
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		err := t.store.transact(ctx, func(q querier) error { return t.entry.lose(ctx, t.store, q) })
		if err == nil {
			return core.ErrEnded
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w; and it could not be recorded: %w", core.ErrEnded, err)
		}
	}
}

// Rollback implements [core.Tx].
func (t *tx) Rollback() error {
	if _ = t.end(t.undo); t.lost != nil { // by this call, or the one that ended it
		return t.lost
	}
	if retryable := t.conn.failure(); retryable != nil {
		return fmt.Errorf("%w: %w", core.ErrRetryable, retryable)
	}
	return nil
}

// Commit implements [core.Tx].
func (t rollbackTx) Commit(ctx context.Context, c core.Completion, undoRows bool) error {
	return t.finish(ctx, func() error { return t.record(ctx, c, undoRows) })
}

// finish runs the last statement and commits; or rolls back.
func (t *tx) finish(ctx context.Context, last func() error) error {
	return t.end(func() error {
		err := t.failed(ctx)
		if err == nil {
			err = last()
		}
		if err != nil {
			return cmp.Or(t.undo(), err)
		}
		return t.commit(ctx)
	})
}

// failed tells of what the handler's statements have run into.
func (t *tx) failed(ctx context.Context) error {
	if retryable := t.conn.failure(); retryable != nil {
		return fmt.Errorf("%w: %w", core.ErrRetryable, retryable)
	}
	if t.store.dialect == sqlite && !t.alive(ctx) {
		return fmt.Errorf("%w: %w", core.ErrAborted, errLost)
	}
	return nil
}

// stillOpen fails on SQLite unless the transaction is the one that was begun: the savepoint ends with it. On PostgreSQL
// the last statement itself asks for that (asBegun).
func (t *tx) stillOpen(ctx context.Context) error {
	if t.store.dialect == postgres {
		return nil
	}
	_, err := t.conn.sql.ExecContext(ctx, "RELEASE SAVEPOINT "+savepoint)
	t.checked = err == nil
	return err
}

// errNotRecorded: the last statement of a transaction found nothing to record in. The transaction is not the one that was
// begun, or somebody has changed the library's row in it.
var errNotRecorded = errors.New("idem: gormstore: the record of the attempt is gone")

// record writes the answer into the transaction. Whatever fails here, nothing has been committed.
func (t rollbackTx) record(ctx context.Context, c core.Completion, undoRows bool) error {
	args, err := completionArgs(c)
	if err != nil {
		return fmt.Errorf("%w: %w", core.ErrAborted, err)
	}
	if undoRows { // and with them the settings
		_, err = t.conn.sql.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+savepoint)
		t.gone = slices.Contains([]string{noSavepoint, noTransaction}, sqlState(err))
	} else if err = t.conn.restoreSettings(ctx); err == nil {
		err = t.stillOpen(ctx)
	}
	if err != nil {
		return notCommitted(err)
	}
	statement := complete
	if t.store.dialect == postgres {
		statement = completeAsBegun
	}
	n, err := t.store.exec(ctx, t.conn.sql, statement, append(ownedBy(t.ticket), args...)...)
	switch {
	case err != nil:
		return notCommitted(err)
	case n != 1:
		return fmt.Errorf("%w: %w", core.ErrAborted, errNotRecorded)
	}
	return nil
}

// notCommitted classifies an error before COMMIT: an error of a statement is for good, unless it asks for a repeat; a
// connection that broke may be another one next time.
func notCommitted(err error) error {
	if state := sqlState(err); state != "" && !isRetryable(err) && !strings.HasPrefix(state, "08") {
		return fmt.Errorf("%w: %w", core.ErrAborted, err)
	}
	return fmt.Errorf("%w: %w", core.ErrRetryable, err)
}

// commit sends COMMIT and waits for its end as long as ctx allows. COMMIT goes on if it takes longer: a server that
// waits for its standby is not to be interrupted. One that passes nothing is left behind.
func (t *tx) commit(ctx context.Context) error {
	outcome, stalled := make(chan error, 1), make(chan struct{})
	go func() {
		warned := t.store.notices.expect(t.pid)
		ended := t.store.stalls.watch(t.store.atStandby(t.pid, core.ID{}), func() {
			t.leave()
			close(stalled)
		})
		_, err := t.conn.sql.ExecContext(context.WithoutCancel(ctx), "COMMIT")
		left := ended()
		if err != nil {
			rollback(t.conn.sql) // SQLite keeps the transaction open after some errors
		} else {
			_ = t.conn.sql.Close()
		}
		if !left {
			t.leave()
		}
		if warned() && err == nil {
			err = errWarned
		}
		outcome <- err
	}()
	select {
	case err := <-outcome:
		if err == nil {
			return nil
		}
		return t.readBack(ctx, err)
	case <-stalled:
		return t.readBack(ctx, errStalled)
	case <-ctx.Done():
		return fmt.Errorf("%w: COMMIT has not ended", core.ErrUnconfirmed)
	}
}

// readBack finds out what became of a COMMIT that ended with err. What the server itself refused is not
// committed; after anything else the record is read on the primary, and that it is absent counts only once the old
// backend is known to be gone, because the record's lock could be had.
func (t *tx) readBack(ctx context.Context, err error) error {
	if isRefusal(err) {
		return notCommitted(err)
	}
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		committed, certain := t.look(ctx)
		switch {
		case committed:
			return nil
		case certain && t.store.dialect == sqlite: // a constraint that is checked at COMMIT, a full disk
			return fmt.Errorf("%w: %w", core.ErrAborted, err)
		case certain:
			return fmt.Errorf("%w: %w", core.ErrRetryable, err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", core.ErrUnconfirmed, err)
		}
	}
}

// isRefusal reports that a COMMIT failed with an error of its own: a constraint, a conflict. Errors of the connection,
// the server or a pooler between say nothing about the transaction: classes 08, 53, 57, 58 and XX.
func isRefusal(err error) bool {
	state := sqlState(err)
	return state != "" && !slices.Contains([]string{"08", "53", "57", "58", "XX"}, state[:min(2, len(state))])
}

// look reads whether this transaction's entry is committed, and whether that is certain if it is not.
func (t *tx) look(ctx context.Context) (committed, certain bool) {
	s := t.store
	lockErr := s.inTx(ctx, func(q querier) error {
		locked := true // SQLite: the writer's lock says as much
		if s.dialect == postgres {
			var standby bool
			if err := q.QueryRowContext(ctx, tryLock, t.entry.lock()).Scan(&locked, &standby); err != nil {
				return err
			}
			locked = locked && !standby
		}
		there, err := t.entry.committed(ctx, s, q)
		committed, certain = there, err == nil && locked
		if there && err == nil {
			// It is here, but perhaps not on the standby yet: that COMMIT may have been cut off from waiting for it.
			statement, args := t.entry.touch()
			_, err = s.exec(ctx, q, statement, args...)
		}
		return err
	})
	return committed && lockErr == nil, certain && lockErr == nil
}

// answer is the entry of a Rollback attempt: its record, completed.
type answer struct {
	ticket core.Ticket
	claim  core.Claim
}

func (a answer) lock() int64 { return lockKey(a.ticket.ID) }

func (a answer) trace() (string, []any) {
	return "SELECT 1 FROM {schema}.idempotency_record WHERE id = $1 AND owner = $2 AND state = 1",
		[]any{a.ticket.ID[:], a.ticket.Owner[:]}
}

func (a answer) committed(ctx context.Context, s *Store, q querier) (bool, error) {
	rec, err := s.find(ctx, q, a.ticket.ID)
	if errors.Is(err, core.ErrNotFound) {
		return false, nil
	}
	return rec.Ticket == a.ticket && rec.Stored == core.Completed, err
}

func (a answer) touch() (string, []any) { return touch, []any{a.ticket.ID[:]} }

// lose claims again as the same owner, and parks: where the handler has committed, the record is there; where it has
// rolled back, the key is free.
func (a answer) lose(ctx context.Context, s *Store, q querier) error {
	c := a.claim
	c.Lease, c.Deadline = 0, 0 // the attempt is over, and may be settled
	claimed, err := s.claim(ctx, q, c, nil)
	switch {
	case err != nil:
		return err
	case claimed.Busy:
		return errRace // who is at it may give up
	case !claimed.Won && !ours(claimed.Record, c):
		return nil // somebody else has had the key since
	}
	_, err = s.exec(ctx, q, park, ownedBy(claimed.Record.Ticket)...)
	return err
}

func (a answer) leave(s *Store) {
	if s.embedded != nil {
		s.embedded.unreserve(a.ticket.ID)
	}
}

type txKey struct{}

// binding is what the context of an attempt carries.
type binding struct {
	tx   *tx
	gorm *gorm.DB // a session of the app's db on the attempt's connection
	raw  DBTX
}

// asked notes that the handler has asked for its transaction.
func (b *binding) asked() {
	if b.tx != nil {
		b.tx.asked.Store(true)
	}
}

// Asked implements [core.AskedTx].
func (t *tx) Asked() bool { return t.asked.Load() }

// Bind implements [core.Tx].
func (t *tx) Bind(ctx context.Context) context.Context {
	ctx = t.conn.bind(ctx)
	session := t.store.db.Session(&gorm.Session{NewDB: true, Context: ctx})
	session.Statement.ConnPool = t.conn
	session.Statement.Settings.Store(attemptSetting, t.conn)
	return context.WithValue(ctx, txKey{}, &binding{tx: t, gorm: session, raw: t.conn})
}

func bindingFrom(ctx context.Context) *binding {
	b, _ := ctx.Value(txKey{}).(*binding)
	return b
}

func txFrom(ctx context.Context) *tx {
	if b := bindingFrom(ctx); b != nil {
		return b.tx
	}
	return nil
}

// TxFrom returns the transaction of the Rollback attempt that ctx belongs to, bound to ctx; false outside one.
func TxFrom(ctx context.Context) (*gorm.DB, bool) {
	b := bindingFrom(ctx)
	if b == nil {
		return nil, false
	}
	b.asked()
	return b.gorm.WithContext(ctx), true
}

// Tx returns the transaction of the Rollback attempt that ctx belongs to. What is written through it commits together
// with the recorded answer, or not at all.
//
// Outside an attempt it panics: it never falls back to the plain database. The usual causes: the route is not
// guarded with core.Rollback; ctx is not the request's, but context.Background() or a *gin.Context of an engine
// without ContextWithFallback. Pass c.Request.Context() in Gin, c.Request().Context() in Echo.
//
// It panics in shadow too (core.Policy.ShadowUntil), where no attempt is around the handler: the rows would not commit
// with an answer. A handler that is in shadow now and enforced later opens a transaction of its own where core.InShadow
// says so.
func Tx(ctx context.Context) *gorm.DB {
	tx, ok := TxFrom(ctx)
	if !ok {
		if core.InShadow(ctx) {
			panic("idem: gormstore.Tx: this route is in shadow (Policy.ShadowUntil), and no attempt is around its handler. " +
				"Where core.InShadow(ctx), use a transaction of your own: db.WithContext(ctx).Transaction")
		}
		panic("idem: gormstore.Tx: this context belongs to no Rollback attempt. Pass the request's context " +
			"(c.Request.Context() in Gin, c.Request().Context() in Echo; a *gin.Context alone does not carry it), on a " +
			"route whose policy says core.Rollback. In unit tests use gormstore.WithTx")
	}
	return tx
}

// SQLTx returns the transaction of the attempt that ctx belongs to for users of plain SQL or sqlc; false outside one.
func SQLTx(ctx context.Context) (DBTX, bool) {
	b := bindingFrom(ctx)
	if b == nil {
		return nil, false
	}
	b.asked()
	return b.raw, true
}

// WithTx returns a context in which Tx, TxFrom and SQLTx find db, for unit tests of handlers and repositories. db is
// usually a transaction that the test rolls back.
func WithTx(ctx context.Context, db *gorm.DB) context.Context {
	return context.WithValue(ctx, txKey{}, &binding{gorm: db, raw: db.Statement.ConnPool})
}
