//go:build linux

package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTally(t *testing.T) {
	seen, begun := newTally(), time.Now()
	for range 4 {
		seen.next()
	}
	seen.acknowledge(2, "c", begun)
	require.Zero(t, seen.outage, "one answer has no gap")
	seen.acknowledge(0, "a", begun.Add(time.Second))
	seen.acknowledge(3, "d", begun.Add(24*time.Second))
	seen.acknowledge(1, "b", begun.Add(25*time.Second))
	seen.fail(errors.New("given up"))
	require.Equal(t, 4, seen.next())
	require.Equal(t, 4, seen.acknowledged())
	require.Equal(t, []int{0, 1, 2, 3}, seen.all())
	require.Equal(t, "c", seen.answer(2))
	require.Equal(t, 23*time.Second, seen.outage)
	require.Len(t, seen.errs, 1)
}
