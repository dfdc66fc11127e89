package app

import (
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Where something else has the port, the message names the setting.
func TestPortIsBusy(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, busy.Close()) })
	a := &App{Settings: Settings{Addr: busy.Addr().String()}}
	err = a.Serve(t.Context(), http.NotFoundHandler())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, "ADDR: ")
	require.ErrorContains(t, err, "such as ADDR=127.0.0.1:8081")
}

// A client that sends its headers or its body byte by byte is cut, with the timeouts that the app really has.
//
// CONTRACT H-5
func TestSlowClientsAreCut(t *testing.T) {
	for name, request := range map[string]string{
		"headers": "POST / HTTP/1.1\r\nHost: example\r\nX-Slow: ",
		"body":    "POST / HTTP/1.1\r\nHost: example\r\nContent-Length: 1000000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clientSide, serverSide := net.Pipe()
				server := newServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					_, err := r.Body.Read(make([]byte, 100))
					for err == nil {
						_, err = r.Body.Read(make([]byte, 100))
					}
				}))
				ended := make(chan error)
				listener := &oneConnection{conn: serverSide, closed: make(chan struct{})}
				go func() { ended <- server.Serve(listener) }()

				began := time.Now()
				go func() { _, _ = clientSide.Read(make([]byte, 4096)) }() // an answer that says so
				_, err := clientSide.Write([]byte(request))
				for err == nil && time.Since(began) < 10*time.Minute {
					time.Sleep(time.Second)
					_, err = clientSide.Write([]byte("x"))
				}
				require.LessOrEqual(t, time.Since(began), time.Minute+5*time.Second)
				require.NoError(t, server.Close())
				require.ErrorIs(t, <-ended, http.ErrServerClosed)
			})
		})
	}
}

// oneConnection is a listener for one connection.
type oneConnection struct {
	conn   net.Conn
	closed chan struct{}
}

func (l *oneConnection) Accept() (net.Conn, error) {
	if conn := l.conn; conn != nil {
		l.conn = nil
		return conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConnection) Close() error { close(l.closed); return nil }

func (l *oneConnection) Addr() net.Addr { return &net.TCPAddr{} }
