package cutproxy

import (
	"context"
	"io"
	"net"
	"sync/atomic"
)

// link is a connection through the proxy: from the client, to the server, and sometimes to the server once more.
type link struct {
	client, server net.Conn
	twin           net.Conn // nil without Fate.Twice
	fate           Fate
	mute           atomic.Bool // the client gets no answer any more
	silent         atomic.Bool // nothing passes any more, in either direction
	half           bool        // of a silent link: one of the sides has closed it; Proxy.mu is held
}

// dial connects to the server. After an error the link must still be closed.
func (l *link) dial(ctx context.Context, target string) (err error) {
	var dialer net.Dialer
	if l.server, err = dialer.DialContext(ctx, "tcp", target); err != nil {
		return err
	}
	if l.fate.Twice {
		l.twin, err = dialer.DialContext(ctx, "tcp", target)
	}
	return err
}

// copy passes on what goes in a direction, and reports whether it has come to the byte of the cut.
func (l *link) copy(d Direction) (cut bool) {
	from, to := l.client, l.toServer()
	if d == ToClient {
		from, to = l.server, l.answer
	}
	if l.fate.Cut != d {
		_, _ = io.Copy(to, from) // an error ends the connection as its end does
		return false
	}
	_, err := io.CopyN(to, from, l.fate.After)
	if l.silent.Load() {
		_, _ = io.Copy(to, from) // its cut would be heard
		return false
	}
	return err == nil
}

// toServer returns the writer to the server. What is sent twice goes to the twin first, because an answer may end the link.
// The client is cut off before the last byte of a cut request is sent, because the server could otherwise answer before the
// cut.
func (l *link) toServer() writer {
	left := l.fate.After
	return func(p []byte) (int, error) {
		if l.silent.Load() {
			return len(p), nil
		}
		if l.twin != nil {
			_, _ = l.twin.Write(p)
		}
		if left -= int64(len(p)); l.fate.Cut == ToServer && left <= 0 {
			l.mute.Store(true)
		}
		return l.server.Write(p)
	}
}

// answer writes to the client.
func (l *link) answer(p []byte) (int, error) {
	if l.mute.Load() || l.silent.Load() {
		return len(p), nil
	}
	return l.client.Write(p)
}

// drainTwin reads what the server answers over the second connection.
func (l *link) drainTwin() { _, _ = io.Copy(io.Discard, l.twin) }

func (l *link) close() {
	for _, conn := range []net.Conn{l.client, l.server, l.twin} {
		if conn != nil {
			_ = conn.Close()
		}
	}
}

// writer makes an [io.Writer] of a function.
type writer func(p []byte) (int, error)

// Write implements [io.Writer].
func (w writer) Write(p []byte) (int, error) { return w(p) }
