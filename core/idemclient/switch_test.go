package idemclient_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/intents"
)

// net/http hands the connection over with a 101, and watches its time no more.
//
// CONTRACT C-8
func TestASwitchOfProtocolsIsClosedAtOnce(t *testing.T) {
	for name, lines := range map[string]string{
		"plain": "", "marked": "Idempotency-Result: created\r\n", "a problem": "Idempotency-Problem: store_unavailable\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			everything := idemclient.Standard()
			everything.Definite = func(int, http.Header) bool { return true }
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			closed := make(chan error)
			go func() {
				for range 2 {
					closed <- switchProtocols(listener, lines)
				}
			}()
			journal := intents.NewMemoryJournal()
			client := newClient(t, idemclient.Config{Transport: ownTransport(t), Journal: journal, Provider: everything, Direct: true, MaxAttempts: 1})
			url := "http://" + listener.Addr().String()
			e := failed(t)(client.Do(t.Context(), "order-7", payment(t, url)))
			require.NoError(t, <-closed)
			require.ErrorIs(t, e, idemclient.ErrStillUncertain)
			require.True(t, e.Uncertain)
			require.Equal(t, http.StatusSwitchingProtocols, e.Status)
			require.False(t, hasEnded(t, journal))
			_, err = client.LookupKey(t.Context(), "k-1", url)
			require.ErrorIs(t, err, idemclient.ErrLookup)
			require.NoError(t, <-closed)
			require.NoError(t, listener.Close())
		})
	}
}

// switchProtocols answers one request with a 101, and waits until the client has closed the connection.
func switchProtocols(listener net.Listener, lines string) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	from := bufio.NewReader(conn)
	request, err := http.ReadRequest(from)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, request.Body)
	_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n"+lines+"\r\n")
	if err := errors.Join(err, conn.SetReadDeadline(time.Now().Add(5*time.Second))); err != nil {
		return err
	}
	if _, err = from.ReadByte(); errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("the client holds the connection")
	}
	return nil
}

// A proxy loses half of the body: the server has run nothing, and the same bytes get through the next time.
//
// CONTRACT C-8, C-2
func TestABodyThatAProxyHasLost(t *testing.T) {
	b := newBank(t, core.Config{}, nil)
	transport, n := ownTransport(t), 0
	loses := roundTrip(func(r *http.Request) (*http.Response, error) {
		if n++; n > 1 {
			return transport.RoundTrip(r)
		}
		conn, err := net.Dial("tcp", r.URL.Host)
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		_, err = io.WriteString(conn, "POST "+r.URL.Path+" HTTP/1.1\r\nHost: bank\r\nIdempotency-Key: "+r.Header.Get("Idempotency-Key")+
			"\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\r\n{\"amo")
		if err := errors.Join(err, conn.(*net.TCPConn).CloseWrite()); err != nil {
			return nil, err
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), r)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(res.Body)
		res.Body = io.NopCloser(bytes.NewReader(body))
		require.NotEmpty(t, res.Header.Get("Retry-After"), "for clients that know no codes")
		return res, err
	})
	res := succeeded(t)(newClient(t, idemclient.Config{Transport: loses}).Do(t.Context(), "order-7", payment(t, b.URL+"/v1/payments")))
	require.Equal(t, http.StatusCreated, res.StatusCode)
	require.Equal(t, 2, idemclient.ResultOf(res).Attempts)
	require.Len(t, b.keys(), 1)
}
