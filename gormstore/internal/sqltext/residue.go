package sqltext

import (
	"slices"
	"strings"
)

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

// makesTable reports whether the token t, behind last, makes a statement that begins with first make a table, perhaps a
// temporary one: SELECT ... INTO, or CREATE TABLE AS or EXECUTE behind EXPLAIN.
func makesTable(first, last, t token) bool {
	return t.is("INTO") && !last.is("INSERT") && !last.is("MERGE") || first.is("EXPLAIN") && (t.is("CREATE") || t.is("EXECUTE"))
}

// unknownFunctions returns the names of the functions that a statement calls and that may leave something on a connection.
func unknownFunctions(tokens []token) (names []string) {
	for i, t := range tokens {
		named := t.kind == word || t.kind == quotedName
		if !named || !calls(tokens, i) || isColumnList(tokens, i) || isReadOnly(Postgres, tokens, i) {
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
