package gormstore_test

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between a pool and its PostgreSQL server, to break what goes through.
type proxy struct {
	url    string // of the database, by way of the proxy
	filter atomic.Pointer[filter]

	mu    sync.Mutex
	links map[*link]struct{}
	done  sync.WaitGroup
}

// filter sees what a client sends, or what the server sends back. It returns how much of it to pass on, and whether to
// cut the connection then. It may block: what was sent is delivered late, also when its client is gone by then. It may
// write into chunk, up to its capacity.
type filter func(toServer bool, chunk []byte) (pass int, cut bool)

// link is a connection through the proxy.
type link struct{ client, server net.Conn }

func (l *link) cut() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func newProxy(t *testing.T, databaseURL string) *proxy {
	t.Helper()
	target := try(url.Parse(databaseURL)).ok(t)
	server := target.Host
	listener := try(net.Listen("tcp", "127.0.0.1:0")).ok(t)
	target.Host = listener.Addr().String()
	p := &proxy{url: target.String(), links: make(map[*link]struct{})}
	p.done.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			conn, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.carry(&link{client, conn})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
		p.done.Wait()
	})
	return p
}

func (p *proxy) carry(l *link) {
	p.mu.Lock()
	p.links[l] = struct{}{}
	p.mu.Unlock()
	p.done.Go(func() {
		p.copy(true, l.client, l.server, l)
		l.cut()
	})
	p.done.Go(func() {
		p.copy(false, l.server, l.client, l)
		_ = l.client.Close() // the server still gets what is on its way
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	})
}

func (p *proxy) copy(toServer bool, from, to net.Conn, l *link) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		pass, cut := n, false
		if f := p.filter.Load(); f != nil {
			pass, cut = (*f)(toServer, buf[:n])
		}
		if _, err := to.Write(buf[:pass]); err != nil && toServer {
			return
		}
		if cut {
			l.cut()
		}
	}
}

// set makes f the filter of everything that comes from now on; nil lets everything pass.
func (p *proxy) set(f filter) {
	if f == nil {
		p.filter.Store(nil)
		return
	}
	p.filter.Store(&f)
}

// once is a filter that cuts the first chunk off where at says so, and its connection.
func once(at func(toServer bool, chunk []byte) bool) (f filter, done *atomic.Bool) {
	done = new(atomic.Bool)
	return func(toServer bool, chunk []byte) (int, bool) {
		if at(toServer, chunk) && done.CompareAndSwap(false, true) {
			return 0, true
		}
		return len(chunk), false
	}, done
}

// cut breaks all connections that there are.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// dropCancels is a filter for requests to cancel another connection's statement, as pgx sends them when it gives a
// connection up (PostgreSQL's protocol, message CancelRequest). A client that was killed sends none.
func dropCancels(toServer bool, chunk []byte) (pass int, cut bool) {
	if toServer && bytes.HasPrefix(chunk, []byte{0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e}) {
		return 0, true
	}
	return len(chunk), false
}
