package idemclient_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/idemclient"
)

// What an HTTP/2 server sends (RFC 9113).
const (
	frameData, frameHeaders, frameReset, frameSettings, frameGoAway = 0, 1, 3, 4, 7

	endStream, endHeaders = 1, 4

	protocolError, internalError, refusedStream = 1, 2, 7
)

// http2Server answers each stream with the next of its answers, the last one again and again. It speaks HTTP/2 by hand,
// because no server can be told to refuse.
type http2Server struct {
	net.Listener

	mu      sync.Mutex
	answers []func(c net.Conn, stream uint32)
	streams int
	conns   []net.Conn
	open    sync.WaitGroup
}

func newHTTP2Server(t *testing.T, secure *tls.Config, answers ...func(c net.Conn, stream uint32)) *http2Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	s := &http2Server{Listener: listener, answers: answers}
	s.open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			s.open.Go(func() { s.serve(conn) })
		}
	})
	return s
}

func (s *http2Server) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, s.Close())
	s.mu.Lock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.open.Wait()
}

func (s *http2Server) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	if _, err := io.CopyN(io.Discard, c, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	send(c, frameSettings, 0, 0, nil)
	for {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c, payload); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch {
		case kind == frameSettings && flags == 0:
			send(c, frameSettings, 1, 0, nil) // acknowledged
		case (kind == frameData || kind == frameHeaders) && flags&endStream != 0: // a whole request
			s.mu.Lock()
			answer := s.answers[min(s.streams, len(s.answers)-1)]
			s.streams++
			s.mu.Unlock()
			answer(c, stream)
		}
	}
}

func send(c net.Conn, kind, flags byte, stream uint32, payload []byte) {
	n := len(payload)
	frame := append(make([]byte, 0, 9+n), byte(n>>16), byte(n>>8), byte(n), kind, flags)
	_, _ = c.Write(append(binary.BigEndian.AppendUint32(frame, stream), payload...))
}

// marked is an answer of a server of this library.
func marked(status, name, value string) func(net.Conn, uint32) {
	block := append([]byte{0x08, 3}, status...)
	block = append(block, 0x00)
	for _, s := range []string{name, value} {
		block = append(append(block, byte(len(s))), s...)
	}
	return func(c net.Conn, stream uint32) { send(c, frameHeaders, endStream|endHeaders, stream, block) }
}

var (
	answers201 = marked("201", "idempotency-result", "created")
	// A refusal of this attempt alone, which says nothing about another one.
	refuses400 = marked("400", "idempotency-problem", "key_invalid")
)

// says404 is an answer of somebody on the way.
func says404(c net.Conn, stream uint32) {
	send(c, frameHeaders, endStream|endHeaders, stream, []byte{0x8d})
}

func resets(code uint32) func(net.Conn, uint32) {
	return func(c net.Conn, stream uint32) {
		send(c, frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
	}
}

// goesAway ends the connection; streams up to the last one may have been carried out.
func goesAway(last func(stream uint32) uint32) func(net.Conn, uint32) {
	return func(c net.Conn, stream uint32) {
		send(c, frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last(stream)), 0))
		_ = c.(interface{ CloseWrite() error }).CloseWrite()
	}
}

// The transport sends some requests again by itself, with their key: those of which a server says that it has not touched
// them, and those after a protocol error, which says nothing of the kind. The client does not see which it was, and so all
// of them may have been carried out.
//
// CONTRACT C-1, C-2, C-4
func TestHTTP2(t *testing.T) {
	before := func(stream uint32) uint32 { return stream - 1 }
	with := func(stream uint32) uint32 { return stream }
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	for name, test := range map[string]struct {
		answers  []func(net.Conn, uint32)
		streams  int
		attempts int // of the client
		want     error
	}{
		"refused":                  {[]func(net.Conn, uint32){resets(refusedStream), answers201}, 2, 1, nil},
		"refused twice":            {[]func(net.Conn, uint32){resets(refusedStream), resets(refusedStream), answers201}, 3, 1, nil},
		"goes away before it":      {[]func(net.Conn, uint32){goesAway(before), answers201}, 2, 1, nil},
		"goes away with it":        {[]func(net.Conn, uint32){goesAway(with), answers201}, 2, 2, nil},
		"reset":                    {[]func(net.Conn, uint32){resets(internalError), answers201}, 2, 2, nil},
		"protocol error":           {[]func(net.Conn, uint32){resets(protocolError), answers201}, 2, 1, nil},
		"goes away with it, 404":   {[]func(net.Conn, uint32){goesAway(with), says404}, 2, 2, idemclient.ErrStillUncertain},
		"reset, 404":               {[]func(net.Conn, uint32){resets(internalError), says404}, 2, 2, idemclient.ErrStillUncertain},
		"reset, refused, then 404": {[]func(net.Conn, uint32){resets(internalError), resets(refusedStream), says404}, 3, 2, idemclient.ErrStillUncertain},
		"refused, reset, then 404": {[]func(net.Conn, uint32){resets(refusedStream), resets(internalError), says404}, 3, 2, idemclient.ErrStillUncertain},
		"protocol error, 400":      {[]func(net.Conn, uint32){resets(protocolError), refuses400}, 2, 1, idemclient.ErrStillUncertain},
	} {
		for scheme, secure := range map[string]*tls.Config{
			"http": nil, "https": {Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}},
		} {
			t.Run(name+" "+scheme, func(t *testing.T) {
				server := newHTTP2Server(t, secure, test.answers...)
				transport := certified.Client().Transport.(*http.Transport).Clone()
				transport.Protocols = new(http.Protocols)
				transport.Protocols.SetUnencryptedHTTP2(true)
				transport.Protocols.SetHTTP2(true)
				client := newClient(t, idemclient.Config{Transport: transport, FirstPause: time.Millisecond, MaxAttempts: 5})

				var keys []string
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{WroteHeaderField: func(name string, value []string) {
					if name == "idempotency-key" {
						keys = append(keys, value...)
					}
				}})
				res, err := client.Do(ctx, "order-7", payment(t, scheme+"://"+server.Addr().String()))
				if test.want == nil {
					require.NoError(t, err)
					require.Equal(t, http.StatusCreated, res.StatusCode)
					require.Equal(t, test.attempts, idemclient.ResultOf(res).Attempts)
				} else {
					e := failed(t)(res, err)
					require.ErrorIs(t, e, test.want)
					require.True(t, e.Uncertain)
					require.Equal(t, test.attempts, e.Attempts)
				}
				require.Len(t, keys, test.streams)
				for _, key := range keys {
					require.Equal(t, keys[0], key)
				}
				transport.CloseIdleConnections()
				server.stop(t)
			})
		}
	}
}

// A server that refuses every stream is uncertain: the client does not know why its transport gave up.
//
// CONTRACT C-4
func TestHTTP2ThatRefusesEverything(t *testing.T) {
	ctx, giveUp := context.WithCancel(t.Context())
	server := newHTTP2Server(t, nil, resets(refusedStream), func(c net.Conn, stream uint32) {
		resets(refusedStream)(c, stream)
		giveUp()
	})
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	client := newClient(t, idemclient.Config{Transport: transport, MaxAttempts: 1})
	e := failed(t)(client.Do(ctx, "order-7", payment(t, "http://"+server.Addr().String())))
	require.ErrorIs(t, e, idemclient.ErrGivenUp)
	require.True(t, e.Uncertain)
	transport.CloseIdleConnections()
	server.stop(t)
}
