package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
)

// command is a request that can be sent again, to any life of the app.
type command struct {
	request *http.Request
	body    []byte
}

func newCommand(r *http.Request) (command, error) {
	c := command{request: r}
	if r.Body == nil {
		return c, nil
	}
	var err error
	c.body, err = io.ReadAll(r.Body)
	return c, errors.Join(err, r.Body.Close())
}

// answer is an answer, read to its end, or the reason why there is none.
type answer struct {
	status int
	header http.Header
	body   []byte
	code   core.Code
	err    error
}

// send sends the command to the app at url. around wraps the connection, unless it is nil.
func (c command) send(ctx context.Context, url string, around func(net.Conn) net.Conn) (a answer) {
	r, err := http.NewRequestWithContext(ctx, c.request.Method, url+c.request.URL.RequestURI(), bytes.NewReader(c.body))
	if err != nil {
		return answer{err: err}
	}
	r.Header = c.request.Header.Clone()
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err == nil && around != nil {
				conn = around(conn)
			}
			return conn, err
		},
	}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(r)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = response.Body.Close() }()
	a = answer{status: response.StatusCode, header: response.Header}
	a.body, a.err = io.ReadAll(response.Body)
	return a
}

// final reports whether a client stops repeating after this answer (C-2).
func (a answer) final() bool {
	repeated := []int{http.StatusTooEarly, http.StatusTooManyRequests}
	return a.err == nil && a.status < 500 && a.code != core.CodeInFlight && !slices.Contains(repeated, a.status)
}

// definite reports whether the answer says if the command was carried out.
func (a answer) definite() bool { return a.final() && a.code != core.CodeOutcomeUnknown }

func (a answer) result() string { return a.header.Get(wire.HeaderResult) }

// same reports whether two answers say the same.
func (a answer) same(b answer) bool { return a.status == b.status && bytes.Equal(a.body, b.body) }

// String is for the report.
func (a answer) String() string {
	switch {
	case a.err != nil:
		return "none"
	case a.code != "":
		return fmt.Sprintf("%d %s", a.status, a.code)
	case a.result() != "":
		return fmt.Sprintf("%d %s", a.status, a.result())
	}
	return fmt.Sprint(a.status)
}

// codeOf is the default of Scenario.ProblemCode.
func codeOf(_ int, _ http.Header, body []byte) core.Code {
	var problem struct{ Code core.Code }
	if json.Unmarshal(body, &problem) != nil {
		return ""
	}
	return problem.Code
}

// transit is a point on the network between client and app. It is no event of the app.
type transit string

// The points on the way.
const (
	requestHalf   transit = "while the request arrives"
	answerNothing transit = "before the answer leaves"
	answerHalf    transit = "while the answer leaves"
	answerWhole   transit = "after the answer has arrived"
)

// crashingConn is a client's connection that crashes the app at a point on the way.
type crashingConn struct {
	net.Conn
	at    transit
	crash func()
}

var errCutOff = errors.New("the connection was cut by the crash")

// Write implements [net.Conn].
func (b *crashingConn) Write(p []byte) (int, error) {
	if b.at != requestHalf {
		return b.Conn.Write(p)
	}
	n, _ := b.Conn.Write(p[:len(p)/2])
	b.crash()
	return n, errCutOff
}

// Read implements [net.Conn].
func (b *crashingConn) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if err != nil || b.at == requestHalf {
		return n, err
	}
	b.crash()
	if b.at == answerNothing {
		return 0, errCutOff
	}
	return n / 2, errCutOff
}

// pause is the time between two repeats of a client.
const pause = 50 * time.Millisecond
