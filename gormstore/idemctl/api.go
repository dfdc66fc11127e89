package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/wire"
)

const (
	readTimeout = 30 * time.Second
	sendTimeout = 2 * time.Minute // of a command with its repeats
	maxAnswer   = 64 << 20        // 500 operations with large answers
)

// api is the app's own API.
type api struct {
	base   *url.URL
	token  string
	reader *http.Client
	sender *idemclient.Client
}

// api reads where the app is, and the operator's token. Neither an error nor the help shows the token.
func (c *tool) api() (*api, error) {
	text := cmp.Or(c.url, c.getenv("IDEMCTL_URL"))
	base, err := url.Parse(text)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil ||
		base.RawQuery != "" {
		return nil, fail(misused, "IDEMCTL_URL (or --url): want the address of the app's API up to /operations, without a user "+
			"or a query, such as https://shop.example/v1")
	}
	token, err := c.readToken()
	if err != nil {
		return nil, err
	}
	provider := idemclient.Standard()
	provider.Header = cmp.Or(c.getenv("IDEMCTL_KEY_HEADER"), wire.HeaderKey)
	a := &api{base: base, token: token, reader: &http.Client{
		Timeout:       readTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	a.sender, err = idemclient.New(idemclient.Config{Provider: provider, MaxElapsed: sendTimeout, Authorize: a.authorize,
		Observe: func(_ context.Context, try idemclient.Try) {
			if try.Retry {
				_, _ = fmt.Fprintln(c.log, "no answer yet: sending it again with the same key")
			}
		}})
	if err != nil {
		return nil, fail(misused, "IDEMCTL_KEY_HEADER: %v", err)
	}
	return a, nil
}

func (c *tool) readToken() (string, error) {
	name := "IDEMCTL_TOKEN"
	token := c.getenv(name)
	if file := cmp.Or(c.tokenFile, c.getenv("IDEMCTL_TOKEN_FILE")); file != "" {
		name = "IDEMCTL_TOKEN_FILE (or --token-file)"
		text, err := os.ReadFile(file) //nolint:gosec // the operator's own file
		if err != nil {
			return "", fail(misused, "%s: %v", name, err)
		}
		token = string(text)
	}
	token = strings.TrimSpace(token)
	if token == "" {
		return "", fail(misused, "IDEMCTL_TOKEN: set it to an operator's token, or IDEMCTL_TOKEN_FILE to a file that has one")
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fail(misused, "%s: a token is one word of visible ASCII characters", name)
	}
	return token, nil
}

func (a *api) authorize(r *http.Request) error {
	r.Header.Set("Authorization", "Bearer "+a.token)
	r.Header.Set("Accept", "application/json")
	return nil
}

// request makes a request to a path below the base. The parts of the path are escaped.
func (a *api) request(ctx context.Context, method string, body any, path ...string) (*http.Request, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, fail(misused, "%v", err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, a.base.JoinPath(path...).String(), bytes.NewReader(text))
	if err != nil {
		return nil, fail(misused, "IDEMCTL_URL: %v", err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// read sends a request that changes nothing, and returns the body of a success.
func (a *api) read(r *http.Request) ([]byte, error) {
	_ = a.authorize(r)
	res, err := a.reader.Do(r) //nolint:bodyclose // bodyOf does
	if err != nil {
		return nil, fail(failed, "the app does not answer: %v", err)
	}
	return bodyOf(res)
}

// get reads a path.
func (a *api) get(ctx context.Context, query url.Values, path ...string) ([]byte, error) {
	r, err := a.request(ctx, http.MethodGet, nil, path...)
	if err != nil {
		return nil, err
	}
	r.URL.RawQuery = query.Encode()
	return a.read(r)
}

// send sends a command. It has a key of its own, with which it is repeated while no answer comes.
func (a *api) send(ctx context.Context, intent string, body any, path ...string) ([]byte, error) {
	r, err := a.request(ctx, http.MethodPost, body, path...)
	if err != nil {
		return nil, err
	}
	res, err := a.sender.Do(ctx, intent, r) //nolint:bodyclose // bodyOf does
	if err == nil {
		return bodyOf(res)
	}
	e, ok := errors.AsType[*idemclient.Error](err)
	switch {
	case !ok:
		return nil, fail(failed, "%v", err)
	case e.Uncertain:
		return nil, fail(uncertain, "it is not known whether the app has done it: %v\nLook at it with \"idemctl show\". To send "+
			"it again does no harm: it names the fence, or what is there already is left alone", causeOf(e))
	case e.Response != nil:
		return bodyOf(e.Response)
	}
	return nil, fail(failed, "nothing was changed: %v", causeOf(e))
}

// causeOf is what the client of a command says, for one who does not know intents.
func causeOf(e *idemclient.Error) string {
	text := fmt.Sprintf("attempts: %d", e.Attempts)
	if e.Status != 0 {
		text += strings.TrimRight(fmt.Sprintf(", last answer: %d %s", e.Status, e.Code), " ")
	}
	if e.Status != 0 && e.Code == "" {
		text += ", which is not of the library's guards: is the route mounted there, behind Idempotent?"
	} else if err := cmp.Or(e.Cause, e.Reason); err != nil {
		text += ", " + strings.TrimPrefix(err.Error(), "idem: ")
	}
	return text
}

// bodyOf returns the body of a success. Of a problem it says status, code and detail, which hold no key, token or body
// (P-1).
func bodyOf(res *http.Response) ([]byte, error) {
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil || len(body) > maxAnswer {
		return nil, fail(failed, "the app's answer broke off, or is above 64 MiB")
	}
	if res.StatusCode >= 200 && res.StatusCode <= 299 {
		return body, nil
	}
	var problem struct{ Code, Title, Detail string }
	if json.Unmarshal(body, &problem) != nil || problem.Code == "" {
		problem.Detail = "the answer has no code: is --url the address of the app's API, and is this route mounted there?"
	}
	code := refused
	switch status := res.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		code = denied
	case status == http.StatusNotFound && problem.Code == "operation_not_found":
		code = absent
	case status == http.StatusNotFound, status >= 500, status < 400:
		code = failed
	}
	return nil, fail(code, "%s", strings.TrimSpace(fmt.Sprintf("the app answers %d %s: %s", res.StatusCode, problem.Code,
		cmp.Or(problem.Detail, problem.Title))))
}
