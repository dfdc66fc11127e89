package contracttest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/wire"
)

// ending is how a request ends that goes over the wire by hand.
type ending int

const (
	whole ending = iota // the client sends everything and waits for the answer
	cut                 // it closes its side in the middle of the body, and waits for the answer
	gone                // it resets the connection in the middle of the body
)

// sendWire sends r over a connection of its own, byte by byte as r says: also what net/http's client would not send, or
// not to its end. There may be no answer; the status is 0 then.
func (p *probe) sendWire(r request, end ending) answer {
	p.Helper()
	p.remember(r)
	conn, err := p.dial()
	require.NoError(p, err)
	defer func() { _ = conn.Close() }() // by then the answer is read, or there is none
	require.NoError(p, conn.SetDeadline(time.Now().Add(patience)))
	head := p.head(r)

	written := make(chan struct{})
	go func() { // beside the reading: a server may refuse before it has read everything
		defer close(written)
		if write(conn, head, r, end) != nil {
			return // the server has closed the connection: what it had to say is there to be read
		}
		if half, ok := conn.(interface{ CloseWrite() error }); ok && end == cut {
			_ = half.CloseWrite()
		}
	}()
	if end == gone {
		<-written
		reset(conn)
		return answer{sent: r}
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: r.method})
	a, _ := p.read(r, res, err)
	_ = conn.Close() // ends the writing, whatever is left of it
	<-written
	return a
}

func (p *probe) head(r request) []byte {
	p.Helper()
	target, err := url.Parse(p.URL + r.path)
	require.NoError(p, err)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", r.method, target.RequestURI(), target.Host)
	line := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, value) }
	if r.token != "" {
		line("Authorization", "Bearer "+r.token)
	}
	for _, key := range r.keys {
		line(p.Header, key)
	}
	if r.contentType != "" {
		line("Content-Type", r.contentType)
	}
	if r.chunked {
		line("Transfer-Encoding", "chunked")
	} else {
		line("Content-Length", strconv.Itoa(r.length()))
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

func write(conn net.Conn, head []byte, r request, end ending) error {
	if _, err := conn.Write(head); err != nil {
		return err
	}
	var w io.Writer = conn
	var chunks io.WriteCloser
	if r.chunked {
		chunks = httputil.NewChunkedWriter(conn)
		w = chunks
	}
	half := len(r.body) / 2
	if _, err := w.Write(r.body[:half]); err != nil || end != whole {
		return err
	}
	if _, err := io.Copy(w, r.withBody(r.body[half:]).reader()); err != nil || chunks == nil {
		return err
	}
	if err := chunks.Close(); err != nil {
		return err
	}
	_, err := io.WriteString(conn, "\r\n") // no trailers
	return err
}

func (p *probe) dial() (net.Conn, error) {
	target, err := url.Parse(p.URL)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: patience}
	if target.Scheme == "https" {
		return (&tls.Dialer{NetDialer: dialer}).DialContext(p.Context(), "tcp", address(target, "443"))
	}
	return dialer.DialContext(p.Context(), "tcp", address(target, "80"))
}

func address(target *url.URL, port string) string {
	if target.Port() != "" {
		port = target.Port()
	}
	return net.JoinHostPort(target.Hostname(), port)
}

// reset ends a connection as a client that has crashed does.
func reset(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if plain, ok := conn.(*net.TCPConn); ok {
		_ = plain.SetLinger(0)
	}
	_ = conn.Close()
}

// requireRefused requires a 4xx, or that the server has closed the connection: some of what is sent here does not get
// as far as the app.
func (p *probe) requireRefused(a answer) {
	p.Helper()
	require.True(p, a.status == 0 || a.status >= 400 && a.status < 500, "want 4xx or a closed connection, got %d", a.status)
	require.Empty(p, a.header.Get(wire.HeaderResult), "%s of a refusal", wire.HeaderResult)
	p.requireNoSecret(a)
}
