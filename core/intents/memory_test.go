package intents

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

// Nobody knows what was sent before with a key that a caller has brought, also in the calls after that.
//
// CONTRACT C-4
func TestMemoryJournalKnowsTheFirst(t *testing.T) {
	j, command := NewMemoryJournal(), store.CommandHash{Version: 1}
	for intent, key := range map[string]string{"brought": "a-key", "made": ""} {
		_, err := j.Begin(t.Context(), Entry{Intent: intent, Key: key})
		require.NoError(t, err)
		for _, first := range []bool{key == "", false} {
			e, err := j.Begin(t.Context(), Entry{Intent: intent, Command: command})
			require.NoError(t, err)
			require.Equal(t, first, e.First, intent)
		}
	}
	for _, e := range []Entry{{Intent: "another key was refused"}, {Intent: "another key was refused", Key: "another"}} {
		_, err := j.Begin(t.Context(), e)
		require.NoError(t, err)
	}
	e, err := j.Begin(t.Context(), Entry{Intent: "another key was refused", Command: command})
	require.NoError(t, err)
	require.True(t, e.First)
}

// CONTRACT C-8
func TestMemoryJournalKnowsWhetherOthersHaveCome(t *testing.T) {
	j, e := NewMemoryJournal(), Entry{Intent: "order-7", By: "first", Command: store.CommandHash{Version: 1}}
	for _, others := range []Entry{{}, {Intent: "order-7"}, {Intent: "order-7", Key: "another", By: "second"}, {Intent: "order-8", By: "second"}} {
		first, err := j.Begin(t.Context(), e)
		require.NoError(t, err)
		require.True(t, first.First)
		_, err = j.Begin(t.Context(), others)
		require.NoError(t, err)
	}
	for _, by := range []string{"second", "first", "second"} {
		e.By = by
		there, err := j.Begin(t.Context(), e)
		require.NoError(t, err)
		require.False(t, there.First, by)
	}
}

func TestMemoryJournalForgetsOnlyWhatHasEnded(t *testing.T) {
	j := NewMemoryJournal()
	begin := func(intent string) (string, error) {
		e, err := j.Begin(t.Context(), Entry{Intent: intent})
		return e.Key, err
	}
	pending, err := begin("pending")
	require.NoError(t, err)
	keys := map[string]string{}
	for i := range maxEnded + 1 {
		intent := fmt.Sprint(i)
		keys[intent], err = begin(intent)
		require.NoError(t, err)
		require.NoError(t, j.End(t.Context(), intent))
		require.NoError(t, j.End(t.Context(), intent))
	}
	for intent, kept := range map[string]bool{"1": true, fmt.Sprint(maxEnded): true, "0": false} {
		key, err := begin(intent)
		require.NoError(t, err)
		require.Equal(t, kept, key == keys[intent], intent)
	}
	again, err := begin("pending")
	require.NoError(t, err)
	require.Equal(t, pending, again)
	require.NoError(t, j.End(t.Context(), "never heard of"))

	for i := range maxPending { // two are there
		if _, err = begin(fmt.Sprint("p", i)); err != nil {
			require.Equal(t, maxPending-2, i)
			break
		}
	}
	require.ErrorIs(t, err, errFull)
	_, err = begin("pending")
	require.NoError(t, err, "what is there can always be repeated")
	require.NoError(t, j.End(t.Context(), "pending"))
	_, err = begin("there is room again")
	require.NoError(t, err)
}
