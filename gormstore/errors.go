package gormstore

import (
	"strings"

	"github.com/auth19/idem/gormstore/internal/txn"
)

// noSuchTable reports that a table of the statement does not exist.
func noSuchTable(err error) bool {
	return txn.SQLState(err) == "42P01" || strings.Contains(err.Error(), "no such table")
}
