package main

import (
	"testing"

	"github.com/auth19/idem/examples/internal/crash"
)

func TestCrashes(t *testing.T) { crash.Run(t, "github.com/auth19/idem/examples/gin") }
