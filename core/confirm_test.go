package core_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// A store that has answered is not asked again: its client would wait for ten seconds, and the answer would be the same.
//
// CONTRACT
func TestAnAnswerOfTheStoreIsFinal(t *testing.T) {
	for name, test := range map[string]struct {
		answer error
		again  bool
	}{
		"taken over":             {core.ErrStale, false},
		"the record is gone":     {core.ErrNotFound, false},
		"ended by its handler":   {store.ErrEnded, false},
		"wrapped":                {fmt.Errorf("complete: %w", core.ErrStale), false},
		"the store is not there": {errAway, true},
	} {
		inBubble(t, name, func(t *testing.T) {
			store, asked := newFaultStore(memstore.New()), 0
			store.on("complete", func(context.Context) error { asked++; return test.answer })
			newApp(t, core.Config{Store: store}, created).post("k-1", `{}`)
			require.Equal(t, test.again, asked > 1, "asked %d times", asked)
		})
	}
}
