package txn

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/dialect"
)

// LockNotAvailable is a SQLSTATE: a lock was not granted in time, or not at once.
const LockNotAvailable = "55P03"

// SQLState returns the SQLSTATE of an error, "" for one that has none.
func SQLState(err error) string { return dialect.SQLState(err) }

// IsConflict reports a failure that another try of the same transaction may not have: serialization, deadlock.
func IsConflict(err error) bool { return strings.HasPrefix(SQLState(err), "40") }

const notABoolean = "22P02" // of a question: see dialect.Dialect.TakesWrites

// ErrNoWrites is the error of a server that takes no writes.
var ErrNoWrites error = dialect.NoWritesError("idem: gormstore: " + dialect.NoWrites + " (" + dialect.ReadOnly + ")")

// takesNoWrites reports that a server has refused a statement because it takes no writes. The statement had no effect.
func takesNoWrites(err error) bool { return SQLState(err) == dialect.ReadOnly }

// named returns an error of the database with the names of the library's own calls: with ErrNoWrites, where such a server
// has refused a question, and with store.ErrStatement, where it refuses the statement as such. Any other error stays.
func named(err error, calls ...Call) error {
	switch {
	case SQLState(err) == notABoolean && strings.Contains(err.Error(), dialect.NoWrites):
		return fmt.Errorf("%w: %w", ErrNoWrites, err)
	case isOfStatement(err):
		return fmt.Errorf("%w: %s: %w", store.ErrStatement, names(calls), err)
	case isOfDatabase(err) || errors.Is(err, errUnchanged):
		return fmt.Errorf("%s: %w", names(calls), err)
	}
	return err
}

// names are those of the statements of a message.
func names(calls []Call) string {
	var all []string
	for _, c := range calls {
		all = append(all, string(cmp.Or(c.Name, Statement(c.Text))))
	}
	return strings.Join(all, ", ")
}

// isOfStatement reports that the server has refused a statement as such, classes 0A and 42: a right, a table, a column, a
// plan. It will refuse it again, and no command is to blame.
func isOfStatement(err error) bool {
	state := SQLState(err)
	return strings.HasPrefix(state, "0A") || strings.HasPrefix(state, "42")
}

// isStalePlan reports that a migration has made the plan useless that a connection has cached. The driver forgets it then.
func isStalePlan(err error) bool {
	return SQLState(err) == "0A000" && strings.Contains(err.Error(), "cached plan must not change result type")
}

// isRetryable reports the failures after which the whole command may be repeated as it was: class 40, lock not
// available, operator intervention, a transaction that the server has ended because it did nothing or took too long.
func isRetryable(err error) bool {
	state := SQLState(err)
	return state == LockNotAvailable || tookTooLong(state) || strings.HasPrefix(state, "40") || strings.HasPrefix(state, "57")
}

// tookTooLong reports that the server has ended the transaction, and the connection: idle_in_transaction_session_timeout,
// transaction_timeout.
func tookTooLong(state string) bool { return state == "25P03" || state == "25P04" }

// isRefusal reports that the server refused a COMMIT: a constraint, a conflict. Errors of the connection, the server or a
// pooler in between say nothing about the transaction: classes 08, 53, 57, 58 and XX, that it took too long, and HY, which
// MySQL gives to all that has no class: a node of a cluster that loses the others may say 1180 of what they have committed.
func isRefusal(err error) bool {
	state := SQLState(err)
	silent := []string{"08", "53", "57", "58", "XX", "HY"}
	return state != "" && !tookTooLong(state) && !slices.Contains(silent, state[:min(2, len(state))])
}

// isConnectionError reports that an error came from a connection, not from the server's answer to a statement, nor from
// opening it: a name that does not resolve, a dial, a handshake.
func isConnectionError(err error) bool {
	_, opening := errors.AsType[*pgconn.ConnectError](err)
	if op, ok := errors.AsType[*net.OpError](err); opening || ok && op.Op == "dial" {
		return false
	}
	const terminated = "57P01"
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) ||
		SQLState(err) == terminated || strings.HasPrefix(SQLState(err), "08")
}

// IsAway reports that no server has answered: its connection broke, or none could be opened.
func IsAway(err error) bool {
	_, opening := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	return opening || network || isConnectionError(err)
}

// NoSuchTable reports that a table of the statement does not exist.
func NoSuchTable(err error) bool {
	return SQLState(err) == "42P01" || strings.Contains(err.Error(), "no such table")
}
