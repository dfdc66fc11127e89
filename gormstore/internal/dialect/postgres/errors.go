package postgres

import (
	"errors"
	"slices"
)

// SQLState returns the SQLSTATE of an error from PostgreSQL, "" for any other error.
func SQLState(err error) string {
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return e.SQLState()
	}
	return ""
}

// class names an error by the class of its SQLSTATE. Errors of the driver, or of a context that had ended before, leave the
// transaction as it was.
func class(err error) string {
	if state := SQLState(err); state != "" {
		return "SQLSTATE class " + state[:2]
	}
	return ""
}

func ofCommand(err error) bool {
	state := SQLState(err)
	return state != "" && slices.Contains([]string{"22", "23", "P0"}, state[:2])
}
