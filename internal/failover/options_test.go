//go:build linux

package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	o, err := parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, options{duration: 15 * time.Minute, kills: 5, mode: modeSync, seed: o.seed}, o)
	again, err := parse(strings.Fields(o.String()), io.Discard)
	require.NoError(t, err)
	require.Equal(t, o, again, "what is printed repeats the run")

	for _, args := range []string{"-mode quorum", "-kills 0", "-duration 0s", "-duration -1s", "node1"} {
		_, err := parse(strings.Fields(args), io.Discard)
		require.Error(t, err, args)
	}
}
