package crashtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Postgres returns the URL of a proxy to a PostgreSQL database, which must be reachable without TLS over TCP: each
// statement that the app sends by way of it is an event. Both query protocols are understood. If one round trip has
// several statements (pgx.Batch), each is an event: at a point between two of them, the server has received the first
// and not the second. In the simple protocol they are one text, and one event.
func (g *Gates) Postgres(databaseURL string) (string, error) {
	target, err := url.Parse(databaseURL)
	if err != nil || target.Host == "" {
		return "", errors.New("idem: crashtest: Postgres: want a URL, as in postgres://user:password@host:port/database")
	}
	server := target.Host
	if target.Port() == "" {
		server = net.JoinHostPort(target.Hostname(), "5432")
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("idem: crashtest: Postgres: %w", err)
	}
	if err := g.onKill(func() { _ = listener.Close() }); err != nil {
		_ = listener.Close()
		return "", err
	}
	g.mu.Lock()
	g.wires, g.moved = true, time.Now()
	g.mu.Unlock()
	g.done.Go(func() {
		for {
			app, err := listener.Accept()
			if err != nil {
				return
			}
			g.done.Go(func() { g.connect(app, server) })
		}
	})
	query := target.Query()
	query.Set("sslmode", "disable")
	// A driver that reads the URL as PostgreSQL's own library does takes a plus sign for one.
	target.Host, target.RawQuery = listener.Addr().String(), strings.ReplaceAll(query.Encode(), "+", "%20")
	return target.String(), nil
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

// connect carries a connection of the app to the server, until one of them ends it.
func (g *Gates) connect(app net.Conn, server string) {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(context.Background(), "tcp", server)
	if err != nil {
		_ = app.Close()
		return
	}
	l := &link{app: app, server: conn, prepared: make(map[string]string)}
	g.mu.Lock()
	g.links[l] = true // until it is ready for its first statement
	g.mu.Unlock()
	if g.isDead() {
		l.cut()
	}
	var up sync.WaitGroup
	up.Go(func() {
		g.toServer(l)
		l.cut()
	})
	g.toApp(l)
	l.cut()
	up.Wait()
	g.mu.Lock()
	delete(g.links, l)
	g.mu.Unlock()
}

// toServer passes on what the app sends, one round trip at a time.
func (g *Gates) toServer(l *link) {
	from := bufio.NewReader(l.app)
	startup, err := frame(from, 0)
	if err != nil {
		return
	}
	if _, err := l.server.Write(startup); err != nil {
		return
	}
	var trip []byte
	var parts []part
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
			parts = append(parts, part{l.prepared[bound], len(trip)})
			continue
		case 'D', 'C': // Describe, Close
			continue
		case 'Q': // a simple query
			query, _ := text(body)
			parts = append(parts, part{query, len(trip)})
		}
		if !g.send(l, trip, parts) {
			return
		}
		trip, parts = trip[:0], parts[:0]
	}
}

// part is one statement of a round trip.
type part struct {
	statement string
	end       int // behind it in the round trip
}

// send notes the statements of a round trip and passes them on. It stops at a fault. The statements before that point
// have been passed on.
func (g *Gates) send(l *link, trip []byte, parts []part) (ok bool) {
	g.mu.Lock()
	g.links[l] = true
	g.mu.Unlock()
	passed := 0
	pass := func(end int) bool {
		_, err := l.server.Write(trip[passed:end])
		passed = end
		return err == nil
	}
	for i, p := range parts {
		fault := g.arrive(eventOf(p.statement))
		switch {
		case fault == nil:
		case !fault.at.After:
			if i > 0 && !pass(parts[i-1].end) || !fault.stay(g.dead) {
				return false
			}
		case i < len(parts)-1:
			if !pass(p.end) || !fault.stay(g.dead) {
				return false
			}
		default:
			l.mu.Lock()
			l.hold = fault
			l.mu.Unlock()
		}
	}
	return !g.isDead() && pass(len(trip))
}

// toApp passes on the server's answers. An answer is complete before it is held back.
func (g *Gates) toApp(l *link) {
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
		if hold != nil && !hold.stay(g.dead) {
			return
		}
		if ready {
			g.mu.Lock()
			g.links[l], g.moved = message[5] != 'I', time.Now()
			g.mu.Unlock()
		}
		if _, err := l.app.Write(answer); err != nil {
			return
		}
		answer = answer[:0]
	}
}

// literals are what differs between two commands that are equal but for their values; parameters are none.
var literals = regexp.MustCompile(`'(?:[^']|'')*'|\$?\b\d+\b`)

// eventOf is a statement without its values, or "" for a statement that no request has caused.
func eventOf(statement string) string {
	if strings.HasPrefix(statement, "-- ping") || strings.Contains(statement, "SET lease_until = CASE") {
		return ""
	}
	statement = literals.ReplaceAllStringFunc(statement, func(found string) string {
		if found[0] == '$' {
			return found
		}
		return "?"
	})
	return strings.Join(strings.Fields(statement), " ")
}

// frame reads a message of PostgreSQL's protocol: a type of so many bytes, and its length.
func frame(from *bufio.Reader, typeBytes int) ([]byte, error) {
	head, err := from.Peek(typeBytes + 4)
	if err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(head[typeBytes:]))
	if size < 4 || size > 1<<30 {
		return nil, errors.New("idem: crashtest: this is not PostgreSQL's protocol")
	}
	message := make([]byte, typeBytes+size)
	_, err = io.ReadFull(from, message)
	return message, err
}

// text reads a text that ends with a zero byte from a message.
func text(body []byte) (string, []byte) {
	head, rest, _ := bytes.Cut(body, []byte{0})
	return string(head), rest
}
