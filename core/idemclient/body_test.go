package idemclient_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/idemclient"
)

func setBody(r *http.Request, body string) {
	r.Body = io.NopCloser(strings.NewReader(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
	r.ContentLength = int64(len(body))
}

// closing is a body that can be read once, and tells whether it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// CONTRACT C-2
func TestABodyThatCannotBeRewoundIsNotSent(t *testing.T) {
	once := func() (*http.Request, *closing) {
		r := payment(t, address)
		body := &closing{Reader: strings.NewReader("read me once")}
		r.Body, r.GetBody, r.ContentLength = body, nil, -1
		return r, body
	}
	w := on(says(503), says(201, created))
	r, body := once()
	client := newClient(t, idemclient.Config{Transport: w})
	require.ErrorIs(t, failed(t)(client.Do(t.Context(), "order-7", r)), idemclient.ErrNotRewindable)
	require.True(t, body.closed)
	require.Empty(t, w.sent)

	r, _ = once()
	client = newClient(t, idemclient.Config{Transport: w, MaxBuffer: 11})
	e := failed(t)(client.Do(t.Context(), "order-7", r))
	require.ErrorIs(t, e, idemclient.ErrNotRewindable)
	require.ErrorContains(t, e, "above Config.MaxBuffer (11 bytes)")
	require.Empty(t, w.sent)

	synctest.Test(t, func(t *testing.T) { // where the caller asks for it
		r, body := once()
		client := newClient(t, idemclient.Config{Transport: w, MaxBuffer: 12})
		succeeded(t)(client.Do(t.Context(), "order-7", r))
		require.True(t, body.closed)
		require.Len(t, w.sent, 2)
		for _, s := range w.sent {
			require.Equal(t, "read me once", s.body)
			require.EqualValues(t, 12, s.length)
		}
	})
}

// CONTRACT C-2
func TestBodies(t *testing.T) {
	t.Run("a body that cannot be read is not sent", func(t *testing.T) {
		w, client := onWire(t, says(201, created))
		broken := errors.New("disk gone")
		for what, change := range map[string]func(r *http.Request){
			"GetBody fails": func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return nil, broken } },
			"read fails": func(r *http.Request) {
				r.GetBody = func() (io.ReadCloser, error) {
					return io.NopCloser(io.MultiReader(strings.NewReader("12"), failing{broken})), nil
				}
			},
		} {
			r := payment(t, address)
			change(r)
			require.ErrorIs(t, failed(t)(client.Do(t.Context(), "order-7", r)), broken, what)
		}
		r := payment(t, address)
		r.ContentLength = 1000 // a truncated file, say: a part of a command is none
		require.ErrorContains(t, failed(t)(client.Do(t.Context(), "order-7", r)), "ContentLength of 1000 and a body of 18 bytes")
		require.Empty(t, w.sent)
	})
	// GetBody is asked once: the same bytes go out in every attempt, even where the caller's buffer changes meanwhile.
	inBubble(t, "the body is the same in every attempt", func(t *testing.T) {
		buffer := []byte(`{"amount":"12.50"}`)
		w := on(func(*http.Request) (*http.Response, error) {
			copy(buffer, `{"amount":"99`)
			return nil, errReset
		}, says(201, created))
		r := payment(t, address)
		setBody(r, "")
		r.ContentLength = int64(len(buffer))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(buffer))), nil }
		succeeded(t)(newClient(t, idemclient.Config{Transport: w}).Do(t.Context(), "order-7", r))
		require.Equal(t, w.sent[0].body, w.sent[1].body)
	})
	t.Run("a command without a body", func(t *testing.T) {
		w, client := onWire(t, says(204, created))
		for i, body := range []io.ReadCloser{nil, http.NoBody} {
			succeeded(t)(client.Do(t.Context(), "cancel", &http.Request{Method: http.MethodDelete, URL: payment(t, address).URL, Body: body}))
			require.Zero(t, w.sent[i].length)
			require.NotEmpty(t, w.sent[i].key)
		}
		require.ErrorContains(t, failed(t)(client.Do(t.Context(), "nowhere", &http.Request{Method: http.MethodPost})), "names no host")
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
