package mysql

import (
	"strings"

	"github.com/auth19/idem/gormstore/internal/dialect"
)

// class names an error by the class of its SQLSTATE, and one without by its number.
func class(err error) string {
	if dialect.Number(err) == 0 {
		return ""
	}
	return "SQLSTATE class " + dialect.SQLState(err)[:2]
}

// ofCommand: values, constraints, and what an app raises with SIGNAL.
func ofCommand(err error) bool {
	if dialect.Number(err) == 0 {
		return false
	}
	switch dialect.SQLState(err)[:2] {
	case "22", "23", "45":
		return true
	}
	return false
}

const isDuplicate, isNullColumn = 1062, 1048

func isThere(err error) bool { return dialect.Number(err) == isDuplicate }

func isNull(err error, column string) bool {
	return dialect.Number(err) == isNullColumn && strings.Contains(err.Error(), "'"+column+"'")
}
