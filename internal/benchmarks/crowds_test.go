package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/pgtest"
)

// Every way of a crowd carries commands out, and repeats cost the statements that they should.
func TestCrowds(t *testing.T) {
	server := pgtest.Own(t)
	for _, way := range everyWay {
		o, err := trial{pool: 4, clients: 2, neighbours: 1}.run(t, server, way, 200*time.Millisecond)
		require.NoError(t, err)
		require.Zero(t, o.twice+o.lost+o.unknown, way)
	}
	rows, err := refusedRepeats(t, server, 0)
	require.NoError(t, err)
	require.Len(t, rows, 11)
	for _, row := range rows {
		require.NotContains(t, row[1], "NaN")
	}
}
