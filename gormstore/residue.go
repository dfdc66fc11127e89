package gormstore

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// HarmlessFunctions names functions of your own that handlers call and that leave nothing on a connection, on PostgreSQL:
// no setting, no role, no lock of the session. Write a name as in your statements: "total", or "shop.total" if it is called
// with its schema. Names are compared in lower case.
//
// What a handler leaves on its connection would reach the requests of others. So a connection on which a handler has
// called a function that the library does not know is closed after the attempt, and so is one on which it has sent DO,
// CALL, RESET or anything else that may leave a setting behind. That costs a new connection each time, and GORM's
// logger warns of each function once. The functions that come with PostgreSQL are known if they leave nothing. Default:
// none.
func HarmlessFunctions(names ...string) Option {
	return func(o *options) {
		for _, name := range names {
			o.harmless = append(o.harmless, strings.ToLower(name))
		}
	}
}

// leavingNothing are functions of PostgreSQL that may write or wait, but leave nothing on a connection. Those that only read
// leave nothing either. set_config is refused if it may leave a setting: see setsForSession.
var leavingNothing = words(`
	nextval currval lastval setval set_config
	pg_advisory_xact_lock pg_advisory_xact_lock_shared pg_try_advisory_xact_lock pg_try_advisory_xact_lock_shared
	hashtext hashtextextended pg_notify pg_sleep pg_sleep_for pg_sleep_until pg_blocking_pids pg_get_serial_sequence
	txid_current txid_current_if_assigned pg_current_xact_id pg_current_xact_id_if_assigned pg_current_wal_lsn
	uuid_generate_v1 uuid_generate_v1mc uuid_generate_v3 uuid_generate_v5 uuid_nil
	crypt gen_salt digest hmac gen_random_bytes levenshtein soundex metaphone dmetaphone`)

// tidy are the statements that leave nothing on a connection, but for the functions that they call. SET is LOCAL, or
// refused.
var tidy = words(`select insert update delete merge with values table show explain savepoint release rollback set lock notify
	truncate`)

// residueOf returns what a text of PostgreSQL may leave on its connection: the first words of statements, in upper case, and
// the names of unknown functions, in lower case.
func residueOf(l lexer) (residue []string) {
	var tokens []token
	for {
		t := l.next()
		if t.kind != endOfText && !t.isSymbol(';') {
			tokens = append(tokens, t)
			continue
		}
		begins := slices.IndexFunc(tokens, func(t token) bool { return !t.isSymbol('(') })
		if begins >= 0 && !isTidy(tokens[begins]) {
			residue = append(residue, strings.ToUpper(tokens[begins].text))
		} else {
			residue = append(residue, unknownFunctions(tokens)...)
		}
		if tokens = tokens[:0]; t.kind == endOfText {
			return residue
		}
	}
}

func isTidy(first token) bool { return first.kind == word && tidy[first.name()] }

// unknownFunctions returns the names of the functions that a statement calls and that may leave something on a connection.
func unknownFunctions(tokens []token) (names []string) {
	for i, t := range tokens {
		if t.kind != word && t.kind != quotedName || !calls(tokens, i) || isColumnList(tokens, i) || isReadOnly(tokens, i) {
			continue
		}
		name, schema := t.name(), ""
		if i > 1 && tokens[i-1].isSymbol('.') {
			schema = tokens[i-2].name()
		}
		if leavingNothing[name] && (schema == "" || schema == "pg_catalog") {
			continue
		}
		if schema != "" {
			name = schema + "." + name
		}
		names = append(names, strings.ToLower(name))
	}
	return names
}

// isColumnList reports whether the parenthesis behind the token i begins no arguments, but a list of columns or of values in
// a statement that writes: INSERT INTO shop.orders (...), ON CONFLICT (...), SET (...), THEN INSERT (...).
func isColumnList(tokens []token, i int) bool {
	before := func(n int) token {
		if i < n {
			return token{}
		}
		return tokens[i-n]
	}
	switch t := tokens[i]; {
	case t.is("CONFLICT"):
		return before(1).is("ON")
	case t.is("INSERT"):
		return before(1).is("THEN")
	case t.is("SET"), t.is("RETURNING"):
		return endsOperand(tokens[:i])
	}
	for i > 1 && tokens[i-1].isSymbol('.') {
		i -= 2
	}
	return before(1).is("INTO")
}

// maySuspect reports whether the token before a parenthesis may be the name of a function that residueOf does not know.
// It is asked for every statement, and so it asks little.
func maySuspect(before token) bool {
	name := before.name()
	return before.kind == quotedName || before.kind == word && !keywords[name] && !readOnly[name] && !leavingNothing[name]
}

// leave notes that a statement which may leave something on the connection is about to be sent.
func (c *conn) leave(ctx context.Context, residue []string) {
	for _, what := range residue {
		if slices.Contains(c.store.harmless, what) {
			continue
		}
		c.leaves.Store(true)
		if _, warned := c.store.warnedOf.LoadOrStore(what, true); !warned {
			c.store.db.Logger.Warn(ctx, "idem: gormstore: the connection of each attempt, step or message that sends %s is closed "+
				"afterwards, because something may be left on it; if it is a function that leaves nothing, name it in "+
				"gormstore.HarmlessFunctions", what)
		}
	}
}

// giveBack gives the connection back to the pool. If something may have been left on it, the next user gets another one.
func (c *conn) giveBack() {
	switch {
	case c.stuck.Load():
		c.closeBelow()
	case c.leaves.Load():
		c.discard()
	default:
		_ = c.sql.Close()
	}
}

// rollback ends the transaction on the connection, if there is one, and gives the connection back.
func (c *conn) rollback() {
	if !c.leaves.Load() {
		rollback(c.sql)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	_, _ = c.sql.ExecContext(ctx, "ROLLBACK") // at once: the server may notice late that the client is gone
	c.discard()
}

// discard closes the connection, also where a pgxpool is below: that would give it to its next user.
func (c *conn) discard() {
	c.closeBelow()
	discard(c.sql)
}

// closeBelow closes the pgx connection below.
func (c *conn) closeBelow() {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	_, _ = onPgx(c, func(below *pgx.Conn) (any, error) { return nil, below.Close(ctx) })
}
