package main

import (
	"testing"

	"github.com/auth19/idem/examples/internal/contract"
	"github.com/auth19/idem/internal/apptest"
)

func TestContract(t *testing.T) {
	program := apptest.Build(t, ".")
	t.Run("sqlite", func(t *testing.T) { contract.OnSQLite(t, program) })
	t.Run("postgres", func(t *testing.T) { contract.OnPostgreSQL(t, program) })
}
