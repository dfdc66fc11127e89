package storetest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/auth19/idem/core/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var everything = storetest.Features{Attempts: true, Rows: true, Shared: true, Watch: true, Settings: true, Proposed: true}

func TestRun(t *testing.T) { storetest.Run(t, newReference, everything) }

func TestStress(t *testing.T) { storetest.Stress(t, newReference, everything) }
