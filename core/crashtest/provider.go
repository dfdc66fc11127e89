package crashtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"time"
)

// HTTP returns the URL of a proxy to a provider at target, as in "http://127.0.0.1:9000": each call that the app makes
// by way of it is an event.
func (g *Gates) HTTP(target string) (string, error) {
	to, err := url.Parse(target)
	if err != nil || to.Host == "" {
		return "", fmt.Errorf("idem: crashtest: HTTP: want a URL, as in http://127.0.0.1:9000, not %q", target)
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("idem: crashtest: HTTP: %w", err)
	}
	provider := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { g.forward(provider, w, r) },
	)}
	if err := g.onKill(func() { _ = server.Close() }); err != nil {
		_ = listener.Close()
		return "", err
	}
	g.done.Go(func() { _ = server.Serve(listener) })
	return "http://" + listener.Addr().String(), nil
}

// forward passes a call on, and its answer back once it is whole.
func (g *Gates) forward(provider http.Handler, w http.ResponseWriter, r *http.Request) {
	fault := g.arrive(callOf(r))
	if fault != nil && !fault.at.After && !fault.stay(g.dead) {
		panic(http.ErrAbortHandler)
	}
	// The provider goes on if the app dies meanwhile.
	answer := httptest.NewRecorder()
	provider.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
	if fault != nil && fault.at.After && !fault.stay(g.dead) || g.isDead() {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// Transport returns base, default [http.DefaultTransport], for an app in this process: each call is an event. The body
// of an answer is read whole before the app gets it.
func (g *Gates) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{g, base}
}

type transport struct {
	gates *Gates
	base  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return call(t.gates, callOf(r), func() (*http.Response, error) {
		answer, err := t.base.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		answer.Body, err = whole(answer.Body)
		return answer, err
	})
}

// Around runs call as an event of an app in this process. Use it for what no other gate sees: a provider's SDK, a
// queue, a write that goes past the store.
func (g *Gates) Around(name string, call func()) { g.pass(name, call) }

// identifiers are the parts of a path that may differ in the next command.
var identifiers = regexp.MustCompile(`/[^/]{8,}`)

func callOf(r *http.Request) string {
	return "call " + r.Method + " " + identifiers.ReplaceAllStringFunc(r.URL.Path, func(part string) string {
		for _, c := range part {
			if '0' <= c && c <= '9' {
				return "/..."
			}
		}
		return part
	})
}

// whole reads a body to its end, and returns it to be read again.
func whole(body io.ReadCloser) (io.ReadCloser, error) {
	defer func() { _ = body.Close() }()
	read, err := io.ReadAll(body)
	return io.NopCloser(bytes.NewReader(read)), err
}
