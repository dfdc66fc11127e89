package apptest

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Request is a request to an app.
type Request struct {
	Method string
	Path   string
	Token  string // sent as a bearer token, if set
	Key    string // sent as Idempotency-Key, if set
	Body   string // sent as application/json, if set
	Header http.Header
}

// Response is an answer, read whole.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// client does not follow redirects, and keeps no connection that a killed process would break for the next request.
var client = &http.Client{
	Timeout:       patience,
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Try sends a request. An error says that no whole answer came.
func (p *Process) Try(ctx context.Context, r Request) (Response, error) {
	var body io.Reader
	if r.Body != "" {
		body = strings.NewReader(r.Body)
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, p.URL+r.Path, body)
	if err != nil {
		return Response{}, err
	}
	if r.Token != "" {
		request.Header.Set("Authorization", "Bearer "+r.Token)
	}
	if r.Key != "" {
		request.Header.Set("Idempotency-Key", r.Key)
	}
	if r.Body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(request.Header, r.Header)
	response, err := client.Do(request)
	if err != nil {
		return Response{}, err
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		return Response{}, err
	}
	return Response{Status: response.StatusCode, Header: response.Header, Body: string(read)}, nil
}

// Do sends a request, and fails the test if no answer comes.
func (p *Process) Do(t testing.TB, r Request) Response {
	t.Helper()
	response, err := p.Try(t.Context(), r)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", r.Method, r.Path, err, p.Log())
	}
	return response
}

// Until sends a request again and again until done returns true for its answer, and returns that answer. done may change
// the request for the next time.
func (p *Process) Until(t testing.TB, r *Request, done func(Response) bool) Response {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		response := p.Do(t, *r)
		if done(response) {
			return response
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s %s still answers %d %s", r.Method, r.Path, response.Status, response.Body)
		}
	}
}

// Code is the member "code" of a problem, "" of anything else.
func (r Response) Code() string {
	var problem struct{ Code string }
	if json.Unmarshal([]byte(r.Body), &problem) != nil {
		return ""
	}
	return problem.Code
}

// Decode reads the JSON body into v.
func (r Response) Decode(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.Body), v); err != nil {
		t.Fatalf("%d %s: %v", r.Status, r.Body, err)
	}
}
