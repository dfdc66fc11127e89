package txn

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lateContext has a deadline that is over, and has not noticed it.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now(), true }

// A claim that was too late is noticed, whether its context or its connection has seen the time first.
//
// CONTRACT F-1
func TestClaimThatWasTooLateIsNoted(t *testing.T) {
	d := &Database{}
	early, cancel := context.WithTimeout(t.Context(), time.Hour)
	d.NoteEnd(early, errors.New("refused"))
	cancel()
	d.NoteEnd(early, context.Canceled)
	d.NoteEnd(lateContext{t.Context()}, nil)
	d.NoteEnd(t.Context(), errors.New("no deadline"))
	require.True(t, d.noLateClaims())
	d.NoteEnd(lateContext{t.Context()}, errors.New("i/o timeout"))
	require.False(t, d.noLateClaims())
}
