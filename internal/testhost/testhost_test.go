package testhost

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// All clean-ups run, in order, and all that failed is in the error.
func TestRun(t *testing.T) {
	var order []string
	var folder string
	err := Run(t.Context(), "try", func(t testing.TB) {
		folder = t.TempDir()
		require.DirExists(t, folder)
		t.Cleanup(func() { order = append(order, "first") })
		t.Cleanup(func() {
			order = append(order, "second")
			require.ErrorIs(t, t.Context().Err(), context.Canceled)
			t.Fatalf("in a clean-up")
		})
		require.Equal(t, 1, 2, "in the body")
		order = append(order, "not reached")
	})
	require.ErrorContains(t, err, "in the body")
	require.ErrorContains(t, err, "in a clean-up")
	require.Equal(t, []string{"second", "first"}, order)
	_, missing := os.Stat(folder)
	require.ErrorIs(t, missing, os.ErrNotExist)
	require.NoError(t, Run(t.Context(), "try", func(t testing.TB) { require.False(t, t.Failed()) }))
}
