// Package echotest is what the adapters of both versions of Echo must do beside what every adapter must. The versions differ
// in their types, and little in what they do.
package echotest

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/adaptertest"
)

// Context is a request as Echo's handlers have it.
type Context interface {
	adaptertest.Context
	JSONPretty(status int, v any, indent string) error
	JSONBlob(status int, b []byte) error
	JSONP(status int, callback string, v any) error
	XML(status int, v any) error
	HTML(status int, html string) error
	Blob(status int, contentType string, b []byte) error
	Stream(status int, contentType string, r io.Reader) error
	Redirect(status int, url string) error
	Attachment(file, name string) error
	Bind(v any) error
	SetCookie(cookie *http.Cookie)

	// Render is the app's error handler.
	Render(err error)
	// Before and After add hooks to Echo's own response, and SetStatus sets its status.
	Before(hook func())
	After(hook func())
	SetStatus(status int)
}

// Echo is a version of Echo.
type Echo struct {
	adaptertest.Adapter
	HTTPError   func(status int, message string) error
	Idle        adaptertest.Middleware // does nothing, and may not be asked for its handler by an audit
	CSRF        adaptertest.Middleware // with the token in the form's field csrf
	KeyAuth     adaptertest.Middleware // with the key there, and any will do
	BodyLimit   adaptertest.Middleware // of about a thousand bytes
	Decompress  adaptertest.Middleware
	Gzip, Short adaptertest.Middleware // of every answer, and of those with 500 bytes
	Dump        func(dump func(in, out []byte)) adaptertest.Middleware
	Logger      func(log func(status int, failed bool)) adaptertest.Middleware // handles errors
	// Hosts serves by their hosts the routes that mount adds for each.
	Hosts func(mount func(r adaptertest.Router), hosts ...string) http.Handler
	// Past adds a route past Echo, by its router.
	Past func(app adaptertest.App, method, path string, h adaptertest.Handler)
	// DumpsErrors: the stock middleware that dumps bodies renders errors itself, before it dumps.
	DumpsErrors bool
}

// Complete completes the adapter of a version by the stock middleware, and by the ways in which handlers of both answer. own
// are those of the version.
func (e *Echo) Complete(own func(t testing.TB) map[string]func(c Context) error) {
	e.Gzips = map[string]adaptertest.Middleware{"gzip": e.Gzip, "short": e.Short} // short keeps an answer back, and its header
	before := func(read func(c Context)) adaptertest.Middleware {
		return e.Middleware(func(c adaptertest.Context, next func() error) error { read(c.(Context)); return next() })
	}
	bind := before(func(c Context) { _ = c.Bind(&struct{}{}) })
	reader := func(outer any, contentType string, body func(string) string, refused bool) adaptertest.BodyReader {
		return adaptertest.BodyReader{Outer: outer, ContentType: contentType, Body: body, Refused: refused}
	}
	const form = adaptertest.FormType
	decompress := reader(e.Decompress, form, adaptertest.Zipped, false)
	decompress.Encoding = "gzip"
	e.Methods = []string{"PURGE", "LINK", "PROPFIND", "CONNECTED", "post", "Post", "get", "head", "options"}
	e.Panics = map[string]adaptertest.Panic{
		"Echo's recovery": {Recovery: e.Recover(), Value: "boom", Status: http.StatusInternalServerError,
			Body: `{"message":"Internal Server Error"}` + "\n"},
		"an HTTP error": {Recovery: e.Recover(), Value: e.HTTPError(http.StatusBadGateway, "boom"),
			Status: http.StatusBadGateway, Body: `{"message":"boom"}` + "\n"},
		"aborted handler": {Recovery: e.Recover(), Value: http.ErrAbortHandler}, // breaks off
	}
	e.Readers = map[string]adaptertest.BodyReader{
		"Bind":       reader(bind, "application/json", adaptertest.Object, true),
		"CSRF":       reader(e.CSRF, form, adaptertest.Form, true),
		"KeyAuth":    reader(e.KeyAuth, form, adaptertest.Form, true),
		"BodyDump":   reader(e.Dump(func([]byte, []byte) {}), form, adaptertest.Form, false),
		"BodyLimit":  reader(e.BodyLimit, form, adaptertest.Form, false),
		"Decompress": decompress,
	}
	e.Answers = func(t testing.TB) map[string]adaptertest.Handler {
		handlers := map[string]adaptertest.Handler{}
		for _, ways := range []map[string]func(c Context) error{e.answers(), own(t)} {
			for name, answer := range ways {
				handlers[name] = e.Adapter.Handler(func(c adaptertest.Context) error { return answer(c.(Context)) })
			}
		}
		return handlers
	}
}

// answers are the ways in which a handler of Echo can answer or fail.
func (e *Echo) answers() map[string]func(c Context) error {
	declined := e.HTTPError(http.StatusPaymentRequired, "declined")
	return map[string]func(c Context) error{
		"pretty JSON": func(c Context) error { return c.JSONPretty(http.StatusCreated, map[string]any{"id": 1}, " ") },
		"JSON blob":   func(c Context) error { return c.JSONBlob(http.StatusCreated, []byte(`{"id":1.10}`)) },
		"JSONP":       func(c Context) error { return c.JSONP(http.StatusCreated, "paid", 1) },
		"XML":         func(c Context) error { return c.XML(http.StatusCreated, struct{ ID int }{1}) },
		"HTML":        func(c Context) error { return c.HTML(http.StatusCreated, "<p>paid") },
		"blob":        func(c Context) error { return c.Blob(http.StatusOK, "application/pdf", []byte{0, 1, 2, 0xff}) },
		"empty blob":  func(c Context) error { return c.Blob(http.StatusCreated, "text/plain", nil) },
		"stream": func(c Context) error {
			return c.Stream(http.StatusCreated, "text/csv", strings.NewReader(strings.Repeat("a,b\n", 20<<10)))
		},
		"redirect": func(c Context) error { return c.Redirect(http.StatusSeeOther, "/v1/payments/1") },
		"status set": func(c Context) error {
			c.SetStatus(http.StatusTeapot)
			_, err := io.WriteString(c.Writer(), "short and stout")
			return err
		},
		"HTTP error":           func(Context) error { return declined },
		"rendered":             func(c Context) error { c.Render(declined); return nil },
		"rendered and sent":    func(c Context) error { c.Render(declined); return declined },
		"answered, then error": func(c Context) error { _ = c.JSON(http.StatusCreated, 1); return declined },
		"bound badly":          func(c Context) error { return c.Bind(&struct{ Amount int }{}) },
		"bad redirect":         func(c Context) error { c.Render(c.Bind(&struct{ Amount int }{})); return nil },
	}
}

// Run checks an adapter of Echo, in what other adapters do not have.
func Run(t *testing.T, e Echo) {
	t.Helper()
	t.Run("returned error", func(t *testing.T) { returnedError(t, e) })
	t.Run("guards return the error", func(t *testing.T) { guardsReturnTheError(t, e) })
	t.Run("two shops and one key", func(t *testing.T) { twoShopsAndOneKey(t, e) })
	t.Run("no way past patterns", func(t *testing.T) { noWayPastPatterns(t, e) })
	t.Run("hooks", func(t *testing.T) { hooks(t, e) })
	t.Run("body dump", func(t *testing.T) { bodyDump(t, e) })
	t.Run("audit of the whole Echo", func(t *testing.T) { auditOfTheWholeEcho(t, e) })
	t.Run("audit of decoders", func(t *testing.T) { auditOfDecoders(t, e) })
}

// An error is rendered once, inside the recording; the middleware around the interceptor gets the very same error, and
// what it, or Echo, renders of it again is dropped.
//
// CONTRACT R-1
func returnedError(t *testing.T, e Echo) {
	declined := e.HTTPError(http.StatusPaymentRequired, "declined")
	outer := func(m func(c Context, next func() error) error) adaptertest.Middleware {
		return e.Middleware(func(c adaptertest.Context, next func() error) error { return m(c.(Context), next) })
	}
	renders := func(c Context, next func() error) error {
		err := next()
		if err != nil {
			c.Render(err)
		}
		return err
	}
	for name, middleware := range map[string]adaptertest.Middleware{
		"Echo alone": outer(func(_ Context, next func() error) error { return next() }),
		"a middleware that renders": outer(func(c Context, next func() error) error {
			_ = renders(c, next)
			return nil
		}),
		"a middleware that renders and returns": outer(renders),
		"a middleware that turns it into another": outer(func(_ Context, next func() error) error {
			if next() != nil {
				return e.HTTPError(http.StatusTeapot, "another")
			}
			return nil
		}),
		"logger": e.Logger(func(status int, failed bool) {
			if failed {
				assert.Equal(t, http.StatusPaymentRequired, status)
			}
		}),
		"gzip": e.Gzip,
		"dump": e.Dump(func(_, out []byte) { assert.NotEmpty(t, out) }),
	} {
		careless, _ := adaptertest.Careless(e.Adapter, http.StatusPaymentRequired)
		for want, app := range map[string]adaptertest.App{
			`{"message":"declined"}` + "\n": e.New(), adaptertest.Behind + declined.Error(): careless,
		} {
			t.Run(name+", "+want, func(t *testing.T) {
				var seen atomic.Int64
				app.Use(middleware, e.Middleware(func(c adaptertest.Context, next func() error) error {
					err := next()
					if err != nil {
						seen.Add(1)
						assert.Same(t, declined, err)
						assert.False(t, c.Untouched())
						status, size := c.Sent()
						assert.Equal(t, http.StatusPaymentRequired, status)
						assert.Positive(t, size)
					}
					return err
				}))
				adaptertest.Guarded(t, e.Adapter, app, core.Config{}).Handle(http.MethodPost, "/pay",
					e.Handler(func(c adaptertest.Context) error {
						c.Writer().WriteHeader(http.StatusEarlyHints) // no answer that an error would come too late for
						return declined
					}))
				got := adaptertest.Serve(t, app).RequireReplay(adaptertest.Call{})
				require.Equal(t, http.StatusPaymentRequired, got.Status)
				require.Equal(t, want, got.Body)
				require.EqualValues(t, 1, seen.Load(), "of the first request, not of the replay")
			})
		}
	}
}

// Each guard returns the handler's error: middleware in front logs it.
func guardsReturnTheError(t *testing.T, e Echo) {
	idem, declined := adaptertest.NewModule(t, core.Config{}), errors.New("declined")
	bridge := e.Bridge(func(adaptertest.Context) (authctx.Principal, error) {
		return authctx.Principal{Issuer: adaptertest.Issuer, Subject: "customer-1"}, nil
	})
	var seen error
	app := e.New()
	app.Handle(http.MethodPost, "/v1/pay", e.Handler(func(adaptertest.Context) error { return declined }),
		e.Middleware(func(_ adaptertest.Context, next func() error) error { seen = next(); return seen }),
		bridge, e.RolesGuard(idem), e.KeyGuard(idem), e.Interceptor(idem))
	adaptertest.Serve(t, app).Do(adaptertest.Call{Key: "key-1"})
	require.ErrorIs(t, seen, declined)
}

// Two shops are told apart as Echo's virtual hosts, too.
//
// CONTRACT H-7
func twoShopsAndOneKey(t *testing.T, e Echo) {
	idem := adaptertest.NewModule(t, core.Config{Policy: core.Policy{Recovery: core.Park, CommandHeaders: []string{"Host"}}})
	pay := e.Handler(func(c adaptertest.Context) error { return c.String(http.StatusCreated, "paid at "+c.Request().Host) })
	adaptertest.TwoShopsAndOneKey(t, e.Hosts(func(r adaptertest.Router) {
		r.Handle(http.MethodPost, "/v1/pay", pay, e.JWTGuard(adaptertest.NewVerifier(t)), e.Idempotent(idem))
	}, "a.example", "A.EXAMPLE", "b.example"))
}

// What is not proven to be no route is guarded.
//
// CONTRACT K-8
func noWayPastPatterns(t *testing.T, e Echo) {
	app, never := e.New(), adaptertest.Never(t, e.Adapter)
	app.Use(e.JWTGuard(adaptertest.NewVerifier(t)), e.Idempotent(adaptertest.NewModule(t, core.Config{})))
	e.Past(app, http.MethodPost, "/past/echo", never) // in no list of routes
	v1 := app.Group("/v1")
	v1.Handle(http.MethodPost, "/*", never)
	e.Furnish(v1)
	app.Handle(http.MethodPut, "/users/:id", never)
	app.Handle(http.MethodPost, "/users/:user", never) // the same node of the router, under another name
	client := adaptertest.Serve(t, app)
	late := adaptertest.Call{Method: http.MethodPut, Path: "/v1/any"}
	patch := adaptertest.Call{Method: http.MethodPatch, Path: "/users/1"}
	for range 2 {
		require.Equal(t, http.StatusNotFound, client.Do(late).Status)
		require.Equal(t, http.StatusMethodNotAllowed, client.Do(patch).Status)
	}
	v1.Handle(http.MethodPut, "/*", never) // guarded as soon as it is there
	for _, c := range []adaptertest.Call{
		{Path: "/past/echo"}, {Path: "/v1/any/thing"}, {Path: "/users/1"}, {Method: http.MethodPut, Path: "/users/1"}, late,
	} {
		adaptertest.RequireProblem(t, http.StatusBadRequest, "key_missing", client.Do(c))
	}
}

// Echo's hooks run when the answer leaves. What those of outer middleware set is each answer's own, and what the handler's
// set is recorded.
//
// CONTRACT R-3
func hooks(t *testing.T, e Echo) {
	var befores, afters atomic.Int64
	app := e.New()
	app.Use(e.Middleware(func(c adaptertest.Context, next func() error) error {
		own := c.(Context)
		own.Before(func() {
			befores.Add(1)
			own.SetCookie(&http.Cookie{Name: "session", Value: "outer"})
			c.Writer().Header().Set("Link", "</outer>")
		})
		own.After(func() { afters.Add(1) })
		return next()
	}))
	adaptertest.Guarded(t, e.Adapter, app, core.Config{}).Handle(http.MethodPost, "/pay",
		e.Handler(func(c adaptertest.Context) error {
			assert.Zero(t, befores.Load())
			c.(Context).SetCookie(&http.Cookie{Name: "card", Value: "handler"})
			c.(Context).Before(func() { c.Writer().Header().Set("ETag", `"1"`) })
			return c.JSON(http.StatusCreated, 1)
		}))
	client := adaptertest.Serve(t, app)
	first := client.Do(adaptertest.Call{Key: "key-1"})
	require.EqualValues(t, 1, befores.Load())
	require.EqualValues(t, 1, afters.Load())
	require.Equal(t, `"1"`, first.Header.Get("ETag"))
	require.Len(t, first.Header["Set-Cookie"], 2)

	again := client.Do(adaptertest.Call{Key: "key-1"})
	require.EqualValues(t, 2, befores.Load())
	require.Equal(t, `"1"`, again.Header.Get("ETag"))
	require.Equal(t, []string{"</outer>"}, again.Header["Link"])
	require.Len(t, again.Header["Set-Cookie"], 1)
	require.Contains(t, again.Header.Get("Set-Cookie"), "session=outer")
}

// BodyDump inside the guard sees what the handler saw and wrote. Errors are answered and recorded once.
//
// CONTRACT R-1, H-5
func bodyDump(t *testing.T, e Echo) {
	careless, _ := adaptertest.Careless(e.Adapter, http.StatusPaymentRequired)
	for name, app := range map[string]adaptertest.App{"default": e.New(), "careless": careless} {
		t.Run(name, func(t *testing.T) {
			var dumps []string
			v1 := adaptertest.Guarded(t, e.Adapter, app, core.Config{})
			v1.Use(e.Dump(func(in, out []byte) { dumps = append(dumps, string(in), string(out)) }))
			v1.Handle(http.MethodPost, "/pay", e.Handler(func(c adaptertest.Context) error {
				return c.(Context).Stream(http.StatusCreated, "text/plain", c.Request().Body)
			}))
			v1.Handle(http.MethodPost, "/failing", e.Handler(func(adaptertest.Context) error {
				return e.HTTPError(http.StatusPaymentRequired, "declined")
			}))
			client := adaptertest.Serve(t, app)
			paid := client.RequireReplay(adaptertest.Call{Key: "key-1", Body: "ten"})
			declined := client.RequireReplay(adaptertest.Call{Path: "/v1/failing", Key: "key-2", Body: "two"})
			require.Equal(t, http.StatusPaymentRequired, declined.Status)
			dumped := []string{"ten", paid.Body, "two", ""}
			if e.DumpsErrors {
				dumped[3] = declined.Body
			}
			require.Equal(t, dumped, dumps, "of the attempts, not of the replays")
		})
	}
}

// Guards of the whole Echo are in front of every route, whenever it is added. A wildcard may end a part of a path.
//
// CONTRACT D-2, O-4
func auditOfTheWholeEcho(t *testing.T, e Echo) {
	routes := core.Routes{"POST /v1/pay": {Recovery: core.Park}}
	idem := adaptertest.NewModule(t, core.Config{Routes: routes})
	app, never := e.New(), adaptertest.Never(t, e.Adapter)
	app.Handle(http.MethodPost, "/v1/pay", never)
	app.Use(e.JWTGuard(adaptertest.NewVerifier(t)), e.Idle, e.Idempotent(idem))
	require.NoError(t, app.Audit(idem))
	app.Handle("", "/v1/p*", never)
	require.ErrorContains(t, app.Audit(idem), "PATCH /v1/p*: this route is not in the table")
}

// A decoder behind the key guard makes an honest repeat another command, if its client compresses it anew.
//
// CONTRACT D-2, H-1
func auditOfDecoders(t *testing.T, e Echo) {
	idem, never := adaptertest.NewModule(t, core.Config{}), adaptertest.Never(t, e.Adapter)
	jwt, guard := e.JWTGuard(adaptertest.NewVerifier(t)), e.Idempotent(idem)
	app := e.New()
	app.Handle(http.MethodPost, "/v1/pay", never, e.Decompress, jwt, guard)
	app.Handle(http.MethodPost, "/v1/refund", never, jwt, e.Decompress, guard)
	require.NoError(t, app.Audit(idem))
	app.Handle(http.MethodPost, "/v1/payout", never, jwt, guard, e.Idle, e.Decompress)
	require.ErrorContains(t, app.Audit(idem), "POST /v1/payout: may decode its body behind the key guard: ")
}
