package contracttest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/auth19/idem/internal/testhost"
)

func TestMain(m *testing.M) {
	testhost.RunFour()
	goleak.VerifyTestMain(m)
}
