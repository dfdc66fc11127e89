package postgres

import (
	"slices"
	"strings"

	"github.com/auth19/idem/gormstore/internal/dialect"
)

// class names an error by the class of its SQLSTATE. Errors of the driver, or of a context that had ended before, leave the
// transaction as it was.
func class(err error) string {
	if state := dialect.SQLState(err); state != "" {
		return "SQLSTATE class " + state[:2]
	}
	return ""
}

func ofCommand(err error) bool {
	state := dialect.SQLState(err)
	return state != "" && slices.Contains([]string{"22", "23", "P0"}, state[:2])
}

// ofStatement: there is a SQLSTATE.
func ofStatement(error) bool { return false }

func isThere(err error) bool { return dialect.SQLState(err) == "23505" }

func isNull(err error, column string) bool {
	return dialect.SQLState(err) == "23502" && strings.Contains(err.Error(), column)
}
