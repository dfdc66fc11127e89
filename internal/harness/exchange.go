package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/auth19/idem/core"
)

// Issuer is the issuer of the example apps' tokens.
const Issuer = "https://issuer.example"

// NewRequest makes the request of a command.
func NewRequest(ctx context.Context, url, token, key, body string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(core.DefaultHeader, key)
	return r, nil
}

// Answer is what a client was told.
type Answer struct {
	Status   int       `json:"status"`
	Result   string    `json:"result,omitempty"` // Idempotency-Result
	Code     core.Code `json:"code,omitempty"`   // of a problem
	Body     string    `json:"body,omitempty"`
	Location string    `json:"-"`
}

// Recorded reports whether repeats get this answer, too.
func (a Answer) Recorded() bool {
	return a.Result == core.ResultCreated || a.Result == core.ResultReused
}

// Exchange sends a request and reads its answer. The body of the response was read, and can be read again. An error says
// that no whole answer came.
func Exchange(network http.RoundTripper, r *http.Request) (*http.Response, Answer, error) {
	response, err := network.RoundTrip(r)
	if err != nil {
		return nil, Answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, Answer{}, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	a := Answer{
		Status: response.StatusCode, Result: response.Header.Get(core.HeaderResult), Location: response.Header.Get("Location"),
		Body: string(body),
	}
	var problem struct{ Code core.Code }
	if a.Status >= http.StatusBadRequest && json.Unmarshal(body, &problem) == nil {
		a.Code = problem.Code
	}
	return response, a, nil
}
