package cutproxy

import (
	"context"
	"io"
	"net"
)

// link is a connection through the proxy: from the client, to the server, and sometimes to the server once more.
type link struct {
	client, server net.Conn
	twin           net.Conn // nil without Fate.Twice
	fate           Fate
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
	from, to := l.client, l.server
	if d == ToClient {
		from, to = l.server, l.client
	}
	var writer io.Writer = to
	if d == ToServer && l.twin != nil {
		writer = io.MultiWriter(to, deaf{l.twin})
	}
	if l.fate.Cut == d {
		_, err := io.CopyN(writer, from, l.fate.After)
		return err == nil
	}
	_, _ = io.Copy(writer, from) // an error ends the connection as its end does
	return false
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

// deaf is a writer whose errors nobody hears.
type deaf struct{ to io.Writer }

// Write implements [io.Writer].
func (d deaf) Write(p []byte) (int, error) {
	_, _ = d.to.Write(p)
	return len(p), nil
}
