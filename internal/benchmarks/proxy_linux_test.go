package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The proxy delays each round trip, counts the answers, and passes the end of a connection on.
func TestProxy(t *testing.T) {
	const roundTrip = 4 * time.Millisecond
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	served := make(chan struct{})
	go func() { // a server that answers each byte with ReadyForQuery
		defer close(served)
		server, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = server.Close() }()
		for {
			one := make([]byte, 1)
			if _, err := server.Read(one); err != nil {
				return
			}
			_, _ = server.Write(message('Z', 1))
		}
	}()
	p, err := newProxy(t, "postgres://"+listener.Addr().String()+"/x", roundTrip)
	require.NoError(t, err)
	host, _, _ := strings.Cut(strings.TrimPrefix(p.url, "postgres://"), "/")
	client, err := net.Dial("tcp", host)
	require.NoError(t, err)
	answer := make([]byte, len(message('Z', 1)))
	begun := time.Now()
	for range 3 {
		_, err = client.Write([]byte{1})
		require.NoError(t, err)
		_, err = client.Read(answer)
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, time.Since(begun), 3*roundTrip*3/4)
	n, err := p.roundTrips()
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.NoError(t, client.Close())
	<-served // the proxy passes the end on
}
