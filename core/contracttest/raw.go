package contracttest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// ending is how a raw request ends.
type ending int

const (
	whole ending = iota // the client waits for the answer
	cut                 // it closes its side of the connection, and waits for an answer
	gone                // it resets the connection
)

// wire is r as it goes over a connection of its own: what net/http's client would refuse to send, or to break off. It
// announces length bytes of body; -1 announces chunks, which r.body has to be made of.
func (p *probe) wire(r request, length int) []byte {
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
	if length < 0 {
		line("Transfer-Encoding", "chunked")
	} else {
		line("Content-Length", strconv.Itoa(length))
	}
	b.WriteString("\r\n")
	b.Write(r.body)
	return b.Bytes()
}

// chunk is data as a chunk of a chunked body; without data it is the last one.
func chunk(data []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(data), data) }

// sendWire sends r as wire has it. There may be no answer, where the server closes the connection or the client is
// gone; the status is 0 then.
func (p *probe) sendWire(r request, length int, end ending) answer {
	p.Helper()
	p.remember(r)
	conn, err := p.dial()
	require.NoError(p, err)
	defer func() { _ = conn.Close() }() // the answer is read, or there is none
	require.NoError(p, conn.SetDeadline(time.Now().Add(patience)))

	wire := p.wire(r, length)
	written := make(chan struct{})
	go func() { // beside the reading: a server may refuse before it has read everything
		defer close(written)
		_, err := conn.Write(wire)
		if half, ok := conn.(interface{ CloseWrite() error }); ok && err == nil && end == cut {
			_ = half.CloseWrite() // an error is the other side's, who is gone already
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

// large sends r with a body that the app should not read to its end.
func (p *probe) large(r request) answer {
	p.Helper()
	return p.sendWire(r, len(r.body), whole)
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
	require.Empty(p, a.header.Get(core.HeaderResult), "%s of a refusal", core.HeaderResult)
	p.requireNoSecret(a)
}
