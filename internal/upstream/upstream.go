// Package upstream is a service behind the app under test, for handlers that relay what it answers.
package upstream

import (
	"io"
	"log"
	"net"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// The answers of a service that breaks off in the middle of a body: of an announced length, and in chunks.
const (
	ShortLength = "HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\n01234"
	ShortChunks = "HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n"
)

// Relay relays requests to a service that answers each with the given bytes and closes the connection. It ends with the
// test.
func Relay(t testing.TB, answer string) *httputil.ReverseProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 64<<10)) // the requests are small
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		<-ended
	})
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: listener.Addr().String()})
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	return proxy
}
