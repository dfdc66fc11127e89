package main

import (
	"testing"

	"github.com/auth19/idem/examples/internal/smoketest"
)

func TestApp(t *testing.T) { smoketest.Run(t, "github.com/auth19/idem/examples/echo") }
