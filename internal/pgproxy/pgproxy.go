// Package pgproxy is a proxy for tests that knows PostgreSQL's protocol, and MySQL's packets, so that a fault is one of a
// turn: a question of the client, up to its Sync, and the server's answer, up to ReadyForQuery. internal/cutproxy cuts any
// protocol at any byte.
package pgproxy

import (
	"net"
	"net/url"
	"sync"
	"time"
)

// Turn is a question that a client has sent.
type Turn struct {
	SQL    []string // the statements that it executes, also those that were prepared before; none if it only prepares
	Cancel bool     // it asks to cancel what another connection does; any fault but Pass loses it
}

// Fault is what becomes of a turn.
type Fault uint8

// The faults. All but Pass, Slow and Conflict are the end of the connection.
const (
	Pass          Fault = iota
	Slow                // the server gets one statement of the question after the other, with pauses
	LoseQuestion        // the connection breaks, and the server has not seen the question
	LoseAnswer          // the server has done what was asked; then the connection breaks
	Late                // the connection breaks; the question, and what was sent with it, arrives when its client is gone
	SwallowAll          // the connection stays open; neither the question nor anything else passes
	SwallowAnswer       // the same from the answer on
	Fatal               // the server seems to end the session (57P01), and has not seen the question
	Conflict            // the statement fails with 40001, and with it its transaction, on the server, too
)

// String implements [fmt.Stringer].
func (f Fault) String() string {
	return [...]string{"pass", "slow", "lose question", "lose answer", "late", "swallow all", "swallow answer", "fatal",
		"conflict"}[f]
}

// Faults are all faults but Pass.
var Faults = []Fault{Slow, LoseQuestion, LoseAnswer, Late, SwallowAll, SwallowAnswer, Fatal, Conflict}

// Delay is how long a late question takes, and how long the server keeps a session whose client has left in silence.
const Delay = 150 * time.Millisecond

// Proxy carries the connections to a server. Its methods may be called at any time, from any goroutine.
type Proxy struct {
	// URL is that of the database, by way of the proxy.
	URL string

	listener net.Listener
	server   string
	open     func(p *Proxy, client, server net.Conn) session
	closed   chan struct{}
	done     sync.WaitGroup

	mu    sync.Mutex
	rule  func(Turn) Fault
	slow  func(t Turn, executed int)
	links map[session]struct{}
}

// session is a connection through the proxy.
type session interface {
	serve() // returns when both sides are done
	cut()
}

// New starts a proxy to the server of a postgres:// URL without TLS. End it with Close.
func New(database string) (*Proxy, error) {
	u, err := url.Parse(database)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := u.Host
	u.Host = listener.Addr().String()
	return start(listener, server, u.String(), newLink), nil
}

func start(listener net.Listener, server, url string, open func(p *Proxy, client, server net.Conn) session) *Proxy {
	p := &Proxy{URL: url, listener: listener, server: server, open: open, closed: make(chan struct{}),
		links: map[session]struct{}{}}
	p.done.Go(p.accept)
	return p
}

// Set makes rule decide about the turns to come, one after the other; nil lets them pass.
func (p *Proxy) Set(rule func(Turn) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// SetSlow calls pause in a [Slow] turn behind each statement, with its place in the turn; nil waits for a moment.
func (p *Proxy) SetSlow(pause func(t Turn, executed int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = pause
}

func (p *Proxy) pause(t Turn, executed int) {
	p.mu.Lock()
	slow := p.slow
	p.mu.Unlock()
	if slow == nil {
		time.Sleep(Delay / 5)
		return
	}
	slow(t, executed)
}

// Cut breaks the connections that there are, and those that pass nothing.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Close ends the proxy and its connections. A late question still arrives first.
func (p *Proxy) Close() {
	close(p.closed)
	_ = p.listener.Close()
	p.Cut()
	p.done.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := p.open(p, client, server)
		p.mu.Lock()
		p.links[l] = struct{}{}
		p.mu.Unlock()
		select {
		case <-p.closed:
			l.cut() // Cut has not seen it
		default:
		}
		p.done.Go(func() {
			l.serve()
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.links, l)
		})
	}
}

func (p *Proxy) judge(t Turn) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rule == nil {
		return Pass
	}
	return p.rule(t)
}
