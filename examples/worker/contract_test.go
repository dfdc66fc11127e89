package main

import (
	"testing"

	"github.com/auth19/idem/examples/internal/contract"
)

func TestContract(t *testing.T) { contract.Run(t, "github.com/auth19/idem/examples/worker") }
