package contracttest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// App is an app under test, with what the suite has to know about it.
type App struct {
	// URL is where the app listens, as in "http://127.0.0.1:8080". If it is empty, Run serves Handler.
	URL     string
	Handler http.Handler

	// Tokens makes the bearer tokens of the callers.
	Tokens Tokens
	// Routes are the guarded routes to be checked, at least one.
	Routes []Route

	// Profile is the app's core.Config.Profile (P-2).
	Profile core.Profile
	// Header is the name of the key's header, default "Idempotency-Key" (K-7).
	Header string
	// ReplayHeaders names the answer headers that are recorded in addition to the contract's own list:
	// core.Config.ReplayHeaders.
	ReplayHeaders []string
	// OperationPath is the path of operations.Show, as in "/v1/operations/{id}". Empty skips M-7.
	OperationPath string
	// OwnOperationPath is the path of operations.Own, as in "/v1/operation". Empty skips M-8.
	OwnOperationPath string
	// Logs returns all that the app has logged so far. Nil skips K-6.
	Logs func() string
	// ProblemCode returns the code of a problem, for apps that render them in their own way: core.Config.RenderProblem,
	// or a JWT middleware with answers of its own. The shape of problems is not checked then. Default: RFC 9457 (P-1).
	ProblemCode func(status int, header http.Header, body []byte) core.Code
}

// Tokens makes bearer tokens. The callers of Of, OtherIssuer and OtherTenant may use all Routes as they are. If a path
// belongs to one caller, run the suite on that route apart, and leave the other callers out. Only Of is required.
type Tokens struct {
	// Of returns a token of subject n, 1 or 2, with the roles for all Routes. Each call should return another token, as a
	// refresh does: otherwise S-2 is skipped.
	Of func(n int) string
	// OtherIssuer returns a token of subject n, by another issuer that the app trusts too (S-1).
	OtherIssuer func(n int) string
	// OtherTenant returns a token of subject n in another tenant (S-1).
	OtherTenant func(n int) string
	// Demoted returns a token of the principal of Of(n) after the principal has lost the roles for all Routes (O-1,
	// O-3).
	Demoted func(n int) string
	// Refused are tokens that must be refused, named by what is wrong with them: "expired", "alg none", "other
	// audience" ... (O-1).
	Refused map[string]string
}

// Body makes the body of command n = 1, 2, 3 ... of this run, with its content type. Commands of different n are
// different, as their business ids are; the same n makes the same bytes. n is 0 if the suite does not send the body.
type Body func(n int) (contentType string, body []byte)

// Route is a guarded route under test.
type Route struct {
	Method string // default POST
	Path   string // a concrete one, as in "/v1/payments" or "/v1/orders/o-1/payments"
	// OtherPath is another path of the same route that takes the same bodies, for routes with a parameter (H-1).
	OtherPath string
	// Recovery is what the app's table says.
	Recovery store.Recovery
	// KeyFormat, KeyAge and MaxBody are the policy's, with its defaults.
	KeyFormat core.KeyFormat
	KeyAge    time.Duration
	MaxBody   int64

	// Body makes commands that the app applies and answers with 2xx. Required.
	Body Body
	// Strict: the handler refuses JSON members that it does not know. The suite then adds none, and checks less of H-2.
	Strict bool
	// Declined makes commands that the handler refuses for a business reason, without effect: with a 4xx other than 401,
	// 403 and 429.
	Declined Body
	// Slow makes commands like Body's that take half a second or longer. Leave it out if Policy.Wait is set (M-2).
	Slow Body
	// Fails makes commands that the handler answers with 5xx after it had its effects: in Rollback and Park always, in
	// Resume in its first attempt only (X-0, M-4, X-3).
	Fails Body

	// Effects counts the effects of the commands of this route: entries of a ledger, charges of a provider. Every command
	// that is applied adds one. Without it, only answers tell whether something ran twice.
	Effects func(ctx context.Context) (int, error)
}

func (r Route) name() string { return r.Method + " " + r.Path }

// What a route can be checked for.

func isRollback(r Route) bool   { return r.Recovery == store.Rollback }
func isPark(r Route) bool       { return r.Recovery == store.Park }
func isResume(r Route) bool     { return r.Recovery == store.Resume }
func hasOtherPath(r Route) bool { return r.OtherPath != "" }

// takesJSON: its commands are JSON objects.
func takesJSON(r Route) bool {
	contentType, body := r.Body(0)
	media, _, err := mime.ParseMediaType(contentType)
	body = bytes.TrimSpace(body)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json")) &&
		bytes.HasPrefix(body, []byte("{")) && bytes.HasSuffix(body, []byte("}"))
}

// takesMembers: a member that the handler does not know may be added to its JSON objects.
func takesMembers(r Route) bool { return takesJSON(r) && !r.Strict }

func takesMultipart(r Route) bool {
	contentType, _ := r.Body(0)
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "multipart/form-data"
}

// isUTF8: its content type is one to which parameters can be added, and names no other charset.
func isUTF8(r Route) bool {
	contentType, _ := r.Body(0)
	_, parameters, err := mime.ParseMediaType(contentType)
	return err == nil && strings.EqualFold(cmp.Or(parameters["charset"], "utf-8"), "utf-8")
}

func (a App) withDefaults() App {
	a.URL = strings.TrimSuffix(a.URL, "/")
	a.Header = http.CanonicalHeaderKey(cmp.Or(a.Header, wire.HeaderKey))
	a.Routes = slices.Clone(a.Routes)
	for i := range a.Routes {
		r := &a.Routes[i]
		r.Method = cmp.Or(r.Method, http.MethodPost)
		r.MaxBody = cmp.Or(r.MaxBody, store.DefaultMaxBody)
		r.KeyAge = cmp.Or(r.KeyAge, store.DefaultKeyAge)
	}
	return a
}

// validate returns one error that names all that is missing.
func (a App) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("idem: contracttest.App."+format, args...))
	}
	if (a.URL == "") == (a.Handler == nil) {
		bad("URL: set it, or Handler, and not both")
	}
	if a.Tokens.Of == nil {
		bad("Tokens.Of: is required")
	}
	if len(a.Routes) == 0 {
		bad("Routes: is required; name a guarded route")
	}
	for _, r := range a.Routes {
		if !strings.HasPrefix(r.Path, "/") {
			bad("Routes[%q].Path: want a concrete path, as in /v1/payments", r.name())
		}
		if r.Body == nil {
			bad("Routes[%q].Body: is required", r.name())
		}
		if r.Recovery < store.Rollback || r.Recovery > store.Park {
			bad("Routes[%q].Recovery: is required; say what the app's table says", r.name())
		}
	}
	return errors.Join(errs...)
}
