// Package cutproxy is a TCP proxy that breaks what goes through it, for tests and examples: it cuts connections after
// any byte in either direction, refuses them, sends everything twice, and leaves them open and passes nothing any more.
// A [Plan] decides the fate of a connection when it is opened. The plan of [Random] can be repeated from its seed.
//
//	proxy, err := cutproxy.New("127.0.0.1:8080", cutproxy.Random(seed, 4000))
//	...
//	client.Get("http://" + proxy.Addr())
//
// It knows nothing of what it carries: HTTP, PostgreSQL's protocol, anything over TCP.
package cutproxy

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
)

// Direction is one of the two in which bytes go.
type Direction uint8

// The directions of a cut.
const (
	Uncut    Direction = iota // the connection is not cut
	ToServer                  // the request is cut: what the client sends
	ToClient                  // the answer is cut: what the server sends
)

// Fate is what becomes of a connection. The zero Fate lets everything pass.
type Fate struct {
	Refuse bool // the connection is reset before a byte has passed, and the server never sees it

	// Twice sends everything that the client sends over a second connection, too. The answers on that one are dropped. Some
	// networks and gateways repeat requests in this way. The server sees both requests at the same time.
	Twice bool

	// Cut breaks the connection as soon as After bytes have gone in that direction: the last of them arrives, and the next
	// byte does not. If the request is cut, nothing of its answer arrives after its last byte.
	Cut   Direction
	After int64
}

// Plan decides the fate of each connection, numbered from 0 in the order in which they come. The calls follow each
// other, and the next connection is accepted when they return.
type Plan func(connection int) Fate

// Pass is the plan that breaks nothing.
func Pass(int) Fate { return Fate{} }

// Random is a plan that cuts every connection sooner or later, in either direction, after mean bytes on average. Each byte
// is as likely as any other to be the last one. The same seed makes the same plan.
func Random(seed uint64, mean int) Plan {
	return func(connection int) Fate {
		r := rand.New(rand.NewPCG(seed, uint64(connection)))
		cut := ToServer
		if r.IntN(2) == 0 {
			cut = ToClient
		}
		return Fate{Cut: cut, After: int64(r.ExpFloat64() * float64(mean))}
	}
}

// Stats counts connections.
type Stats struct {
	Accepted int // all of them
	Refused  int // by the plan
	Lost     int // the server could not be reached
	Doubled  int // by the plan, with a second connection
	Cut      int // by the plan, or by CutAll
	Silenced int // by SilenceAll
}

// Proxy carries connections to a server. Its methods may be called at any time, from any goroutine.
type Proxy struct {
	listener net.Listener
	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	done     sync.WaitGroup

	mu     sync.Mutex
	target string
	plan   Plan
	links  map[*link]struct{}
	stats  Stats
}

// New starts a proxy to the server at target ("host:port") on a free port of this machine. A nil plan is [Pass]. End the
// proxy with Close.
func New(target string, plan Plan) (*Proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, target: target, links: make(map[*link]struct{})}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.SetPlan(plan)
	p.done.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens, as "host:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// SetTarget names another server for the connections to come, for instance after a restart on another port.
func (p *Proxy) SetTarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// SetPlan changes the plan for the connections to come. A nil plan is [Pass].
func (p *Proxy) SetPlan(plan Plan) {
	if plan == nil {
		plan = Pass
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

// CutAll cuts all open connections.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		p.stats.Cut++
		p.end(l)
	}
}

// SilenceAll leaves the open connections open, but lets nothing pass over them any more. No byte arrives, and neither side
// learns that the other has closed its end. That is what happens if a host or a firewall on the way is gone. These
// connections last until both sides have closed them, or until CutAll or Close. Later connections work as before.
func (p *Proxy) SilenceAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if !l.silent.Swap(true) {
			p.stats.Silenced++
		}
	}
}

// Stats returns what became of the connections so far.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Close ends the proxy and its connections, and returns when none of its goroutines is left. It may be called again.
func (p *Proxy) Close() {
	p.stop()
	_ = p.listener.Close()
	p.mu.Lock()
	for l := range p.links {
		p.end(l)
	}
	p.mu.Unlock()
	p.done.Wait()
}

func (p *Proxy) accept() {
	for n := 0; ; n++ {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.mu.Lock()
		plan, target := p.plan, p.target
		p.stats.Accepted++
		p.mu.Unlock()
		fate := plan(n)
		p.done.Go(func() { p.serve(client, target, fate) })
	}
}

func (p *Proxy) serve(client net.Conn, target string, fate Fate) {
	if fate.Refuse {
		p.count(func(s *Stats) { s.Refused++ })
		reset(client)
		return
	}
	l := &link{client: client, fate: fate}
	if err := l.dial(p.ctx, target); err != nil {
		p.count(func(s *Stats) { s.Lost++ })
		l.close()
		reset(client)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil { // Close has not seen this link
		l.close()
		return
	}
	p.links[l] = struct{}{}
	if fate.Twice {
		p.stats.Doubled++
		p.done.Go(l.drainTwin)
	}
	p.done.Go(func() { p.carry(l, ToServer) })
	p.done.Go(func() { p.carry(l, ToClient) })
}

// carry passes on what goes in one direction, until the connection ends or is cut.
func (p *Proxy) carry(l *link, d Direction) {
	cut := l.copy(d)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, open := p.links[l]; !open {
		return
	}
	if l.silent.Load() && !l.half {
		l.half = true // the other side does not hear of it
		return
	}
	if cut {
		p.stats.Cut++
	}
	p.end(l)
}

// end closes a link; p.mu is held.
func (p *Proxy) end(l *link) {
	delete(p.links, l)
	l.close()
}

func (p *Proxy) count(change func(s *Stats)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.stats)
}

// reset closes a connection with a TCP reset, as a machine does if nobody listens on the port any more.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
