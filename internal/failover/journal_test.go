//go:build linux

package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/intents"
)

func TestJournalForgetsNothing(t *testing.T) {
	j := newJournal()
	for i := range 20_000 {
		e, err := j.Begin(t.Context(), intents.Entry{Intent: fmt.Sprint(i), Key: fmt.Sprint("first ", i)})
		require.NoError(t, err)
		require.False(t, e.Ended)
		require.NoError(t, j.End(t.Context(), e.Intent))
	}
	for i := range 20_000 {
		e, err := j.Begin(t.Context(), intents.Entry{Intent: fmt.Sprint(i), Key: "second"})
		require.NoError(t, err)
		require.True(t, e.Ended)
		require.Equal(t, fmt.Sprint("first ", i), e.Key)
	}
}
