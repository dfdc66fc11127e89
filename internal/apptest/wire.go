package apptest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Wire is a proxy between an app and its PostgreSQL server. It sees every statement, in both query protocols, and can
// hold the app at any: so faults come at every point that there is, and not by chance.
type Wire struct {
	URL string // of the database, by way of the proxy

	mu     sync.Mutex
	seen   []string
	next   *Fault         // nil where none is to come
	busy   map[*link]bool // connections with a statement under way, or in a transaction
	closed chan struct{}
	done   sync.WaitGroup
}

// Fault is a point that an app comes to, and stays at.
type Fault struct {
	Reached <-chan struct{} // closed when the app is there

	at      Point
	reached chan struct{}
	deliver chan bool
}

// Release ends the stay: the statement, or the answer to it, moves on where deliver is true; else its connection is
// cut. To be called once.
func (f *Fault) Release(deliver bool) { f.deliver <- deliver }

// stay is what a connection does at the point.
func (f *Fault) stay(closed <-chan struct{}) (deliver bool) {
	close(f.reached)
	select {
	case deliver = <-f.deliver:
		return deliver
	case <-closed:
		return false
	}
}

// Point is a moment of an app's work: before a statement reaches the server, or after the server has carried it out
// and before the app gets to know.
type Point struct {
	Statement int // counted from 0, from Strike on
	After     bool
}

// String says it in words.
func (p Point) String() string {
	if p.After {
		return fmt.Sprintf("after %d", p.Statement)
	}
	return fmt.Sprintf("before %d", p.Statement)
}

// link is a connection through the proxy.
type link struct {
	app, server net.Conn
	prepared    map[string]string // statements by name

	mu   sync.Mutex
	hold *Fault // to stay at before the answer is delivered
}

func (l *link) cut() {
	_ = l.app.Close()
	_ = l.server.Close()
}

// NewWire starts a proxy to a database, which must be reachable without TLS. It ends with the test.
func NewWire(t testing.TB, databaseURL string) *Wire {
	t.Helper()
	target, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal("apptest: NewWire needs a database's URL")
	}
	server := target.Host
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	query := target.Query()
	query.Set("sslmode", "disable")
	target.Host, target.RawQuery = listener.Addr().String(), query.Encode()
	w := &Wire{URL: target.String(), busy: make(map[*link]bool), closed: make(chan struct{})}
	w.done.Go(func() {
		for {
			app, err := listener.Accept()
			if err != nil {
				return
			}
			conn, err := (&net.Dialer{Timeout: patience}).Dial("tcp", server)
			if err != nil {
				_ = app.Close()
				continue
			}
			w.carry(&link{app: app, server: conn, prepared: make(map[string]string)})
		}
	})
	t.Cleanup(func() {
		close(w.closed)
		_ = listener.Close()
		w.mu.Lock()
		for l := range w.busy {
			l.cut()
		}
		w.mu.Unlock()
		w.done.Wait()
	})
	return w
}

// Strike lets the app come to a point of the statements that it sends from now on, once.
func (w *Wire) Strike(at Point) *Fault {
	f := &Fault{at: at, reached: make(chan struct{}), deliver: make(chan bool, 1)}
	f.Reached = f.reached
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen, w.next = nil, f
	return f
}

// Count forgets the statements so far.
func (w *Wire) Count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = nil
}

// Seen returns the statements since Strike or Count, or since the beginning. Those whose number depends on time are left
// out: pings of connection pools, and renewals of leases.
func (w *Wire) Seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// Await waits until the app has sent what ready asks for, and all of its connections are idle.
func (w *Wire) Await(t testing.TB, ready func(seen []string) bool) {
	t.Helper()
	idle := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, busy := range w.busy {
			if busy {
				return false
			}
		}
		return ready(w.seen)
	}
	for deadline := time.Now().Add(patience); !idle(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("apptest: the app does not come to rest; it has sent\n%s", strings.Join(w.Seen(), "\n"))
		}
	}
}

// timeouts are numbers in a statement that depend on when it is sent.
var timeouts = regexp.MustCompile(`(_timeout) = \d+`)

func uncounted(statement string) bool {
	return strings.HasPrefix(statement, "-- ping") || strings.Contains(statement, "SET lease_until = CASE")
}

func (w *Wire) carry(l *link) {
	w.mu.Lock()
	w.busy[l] = true // until it is ready for its first statement
	w.mu.Unlock()
	w.done.Go(func() {
		w.toServer(l)
		l.cut()
	})
	w.done.Go(func() {
		w.toApp(l)
		l.cut()
		w.mu.Lock()
		delete(w.busy, l)
		w.mu.Unlock()
	})
}

// toServer passes on what the app sends, one round trip at a time.
func (w *Wire) toServer(l *link) {
	from := bufio.NewReader(l.app)
	startup, err := frame(from, 0)
	if err != nil {
		return
	}
	if _, err := l.server.Write(startup); err != nil {
		return
	}
	var trip []byte
	executed := ""
	bound := ""
	for {
		message, err := frame(from, 1)
		if err != nil {
			return
		}
		trip = append(trip, message...)
		body := message[5:]
		switch message[0] {
		case 'P': // Parse: name, text
			name, rest := text(body)
			l.prepared[name], _ = text(rest)
			continue
		case 'B': // Bind: portal, name
			_, rest := text(body)
			bound, _ = text(rest)
			continue
		case 'E': // Execute
			executed = l.prepared[bound]
			continue
		case 'D', 'C': // Describe, Close
			continue
		case 'Q': // a simple query
			executed, _ = text(body)
		}
		if !w.send(l, executed) {
			return
		}
		if _, err := l.server.Write(trip); err != nil {
			return
		}
		trip, executed = trip[:0], ""
	}
}

// send notes the statement of a round trip ("" is none), and stays where there is a fault before it.
func (w *Wire) send(l *link, statement string) (deliver bool) {
	w.mu.Lock()
	w.busy[l] = true
	var fault *Fault
	if statement != "" && !uncounted(statement) {
		if w.next != nil && w.next.at.Statement == len(w.seen) {
			fault, w.next = w.next, nil
		}
		w.seen = append(w.seen, timeouts.ReplaceAllString(statement, "$1 = ..."))
	}
	w.mu.Unlock()
	switch {
	case fault == nil:
		return true
	case fault.at.After:
		l.mu.Lock()
		l.hold = fault
		l.mu.Unlock()
		return true
	}
	return fault.stay(w.closed)
}

// toApp passes on what the server answers. An answer to be held is held until it is whole.
func (w *Wire) toApp(l *link) {
	from := bufio.NewReader(l.server)
	var answer []byte
	for {
		message, err := frame(from, 1)
		if err != nil {
			return
		}
		answer = append(answer, message...)
		l.mu.Lock()
		hold := l.hold
		ready := message[0] == 'Z' // ReadyForQuery, with the state of the transaction
		if ready {
			l.hold = nil
		}
		l.mu.Unlock()
		if hold != nil && !ready {
			continue
		}
		if hold != nil && !hold.stay(w.closed) {
			return
		}
		if ready {
			w.mu.Lock()
			w.busy[l] = message[5] != 'I'
			w.mu.Unlock()
		}
		if _, err := l.app.Write(answer); err != nil {
			return
		}
		answer = answer[:0]
	}
}

// frame reads a message of PostgreSQL's protocol: a type of so many bytes, and its length.
func frame(from *bufio.Reader, typeBytes int) ([]byte, error) {
	head, err := from.Peek(typeBytes + 4)
	if err != nil {
		return nil, err
	}
	message := make([]byte, typeBytes+int(binary.BigEndian.Uint32(head[typeBytes:])))
	_, err = io.ReadFull(from, message)
	return message, err
}

// text takes a text that ends with a zero byte off a message.
func text(body []byte) (string, []byte) {
	head, rest, _ := bytes.Cut(body, []byte{0})
	return string(head), rest
}
