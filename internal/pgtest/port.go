package pgtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePort finds a port of 127.0.0.1 for a server that a test starts. It lies below the range from which systems take
// ports for outgoing connections (16000 the lowest, 32768 on Linux): there one could be taken while the server is
// stopped, even by a client's own attempt to reach it.
func FreePort() (int, error) {
	var err error
	for range 100 {
		port := 10000 + rand.IntN(6000)
		var listener net.Listener
		listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("pgtest: no free port: %w", err)
}
