package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core/wire"
)

// path is the one route of all apps. Its handler reads the body, works, and answers with as many bytes.
const path = "/v1/payments"

// payload is the body of commands and of answers.
var payload = jsonBody(100)

// work is what a handler does before it answers.
type work func(ctx context.Context, key string) error

// handle is the handler of all apps. It has written nothing where it returns an error.
func handle(w http.ResponseWriter, r *http.Request, do work) error {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return err
	}
	if err := do(r.Context(), r.Header.Get(wire.HeaderKey)); err != nil {
		return err
	}
	reply(w, http.StatusCreated, payload)
	return nil
}

// unkeyed is an app without keys.
func unkeyed(do work) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := handle(w, r, do); err != nil {
			fail(w, err)
		}
	})
}

func reply(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func fail(w http.ResponseWriter, err error) {
	reply(w, http.StatusInternalServerError, []byte(err.Error()))
}

// want is the answer that a request must get. Another answer ends the benchmark.
type want struct {
	status int
	result string // wire.HeaderResult
}

var (
	plain   = want{http.StatusCreated, ""}
	created = want{http.StatusCreated, wire.ResultCreated}
	reused  = want{http.StatusCreated, wire.ResultReused}
	failed  = want{http.StatusInternalServerError, ""}
)

// send calls an app in this process, without a network. As in net/http the request's context can end: database/sql then
// watches it while a statement runs.
func send(app http.Handler, key string, want want) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, wire.HeaderKey: {key}}
	w := &sink{header: make(http.Header, 8)}
	app.ServeHTTP(w, r)
	if result := w.header.Get(wire.HeaderResult); w.status != want.status || result != want.result {
		return fmt.Errorf("the answer is %d %q, not %d %q: %s", w.status, result, want.status, want.result, w.start)
	}
	return nil
}

// firsts sends each command with a key of its own.
func firsts(app http.Handler, want want) func() error {
	return func() error { return send(app, newKey(), want) }
}

// replays sends commands again, one of so many at random.
func replays(app http.Handler, spread int, once want) (func() error, error) {
	again := once
	if once == created {
		again = reused
	}
	known := make([]string, spread)
	for i := range known {
		known[i] = newKey()
		if err := send(app, known[i], once); err != nil {
			return nil, err
		}
	}
	return func() error { return send(app, known[rand.IntN(spread)], again) }, nil
}

// sink is a ResponseWriter that costs almost nothing. It keeps the start of an error for messages.
type sink struct {
	header http.Header
	status int
	start  []byte
}

func (s *sink) Header() http.Header    { return s.header }
func (s *sink) WriteHeader(status int) { s.status = status }
func (s *sink) Write(p []byte) (int, error) {
	if s.status >= http.StatusBadRequest {
		s.start = append(s.start, p[:min(len(p), 512)]...)
	}
	return len(p), nil
}

var keys atomic.Uint64 // so that no two sides share one

// newKey is a new key: a UUIDv7, as clients should send, whose random part is a number instead.
func newKey() string {
	u := binary.BigEndian.AppendUint64(make([]byte, 0, 16), uint64(time.Now().UnixMilli())<<16|0x7000)
	u = binary.BigEndian.AppendUint64(u, 1<<63|keys.Add(1))
	h := hex.EncodeToString(u)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// jsonBody is an order of exactly that many bytes, which are at least 100.
func jsonBody(size int) []byte {
	const (
		begin = `{"order_id":"ord_0123456789","items":[`
		item  = `{"sku":"sku-%05d","qty":%d,"price":"%d.%02d"},`
		last  = `{"sku":"`
		end   = `"}]}`
	)
	var b strings.Builder
	b.WriteString(begin)
	for i := 0; ; i++ {
		next := fmt.Sprintf(item, i*7919%100000, i%9+1, i*31%1000, i*17%100)
		if b.Len()+len(next)+len(last)+len(end) > size {
			break
		}
		b.WriteString(next)
	}
	b.WriteString(last)
	b.WriteString(strings.Repeat("x", size-b.Len()-len(end)))
	b.WriteString(end)
	return []byte(b.String())
}
