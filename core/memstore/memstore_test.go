package memstore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSubject(*testing.T) storetest.Subject {
	var clock storetest.Clock
	return storetest.Subject{Store: memstore.New(memstore.WithClock(clock.Now)), Advance: clock.Advance}
}

func TestStore(t *testing.T) {
	storetest.Run(t, newSubject, storetest.Features{Attempts: true, Watch: true, Settings: true, Proposed: true})
}

func TestStoreUnderStress(t *testing.T) {
	storetest.Stress(t, newSubject, storetest.Features{Attempts: true, Watch: true, Settings: true, Proposed: true})
}
