package mustrun_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/mustrun"
	"github.com/auth19/idem/internal/testhost"
)

func TestMustRun(t *testing.T) {
	forgets := func(t testing.TB) { mustrun.New(t) }
	calls := func(t testing.TB) { mustrun.New(t)() }
	require.ErrorContains(t, testhost.Run(t.Context(), "forgets", forgets), "forgets: assertions that must run have not run")
	require.NoError(t, testhost.Run(t.Context(), "calls", calls))
}
