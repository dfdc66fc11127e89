//go:build linux

package main

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestWhole(t *testing.T) {
	primary := member{"node1", "leader", "running", 3}
	standby := member{"node2", "replica", "streaming", 3}
	synchronous := member{"node3", "sync_standby", "running", 3}
	require.True(t, whole([]member{primary, standby, synchronous}, 3, true))
	require.True(t, whole([]member{primary, standby, standby}, 3, false))

	for what, members := range map[string][]member{
		"nobody":                  {},
		"one is missing":          {primary, synchronous},
		"one starts":              {primary, {"node2", "replica", "starting", 3}, synchronous},
		"one is on an old branch": {primary, {"node2", "replica", "running", 2}, synchronous},
		"none is synchronous":     {primary, standby, standby},
	} {
		require.False(t, whole(members, 3, true), what)
	}
}

func TestAddressOfTheDatabase(t *testing.T) {
	c := cluster{password: "secret"}
	config, err := pgx.ParseConfig(c.url("app", "shop", "127.0.0.1:1001", "127.0.0.1:1002"))
	require.NoError(t, err)
	require.Equal(t, uint16(1001), config.Port)
	require.Equal(t, uint16(1002), config.Fallbacks[0].Port)
	require.NotNil(t, config.ValidateConnect, "only the one that can write")
	config, err = pgx.ParseConfig(c.url("app", "shop", "127.0.0.1:1001"))
	require.NoError(t, err)
	require.Nil(t, config.ValidateConnect)
}
