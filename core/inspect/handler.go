package inspect

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// handler serves the pages.
type handler struct {
	Config
	commands
	ops *operations.Operations // of Config.Module
}

//go:embed pages/style.css pages/icon.svg
var assets embed.FS

// maxForm is the most that a form may send, in bytes: the answer of a settlement with room for its escapes.
const maxForm = 1 << 20

// maxField is how many bytes a field of a search or a filter may have.
const maxField = 1 << 10

const fieldTooLong = "A field is longer than anything that an operation is known by."

func tooLong(form url.Values) bool {
	for _, values := range form {
		if slices.ContainsFunc(values, func(value string) bool { return len(value) > maxField }) {
			return true
		}
	}
	return false
}

func newHandler(cfg Config, routes commands) http.Handler {
	h := &handler{cfg, routes, operations.New(cfg.Module)}
	mux := http.NewServeMux()
	page := func(pattern string, serve func(v *request) error) {
		method, path, _ := strings.Cut(pattern, " ") // GET takes HEAD, too
		mux.Handle(method+" "+cfg.Prefix+path, h.forOperators(serve))
	}
	page("GET {$}", (*request).overview)
	page("GET operations", (*request).operations)
	page("GET operations/{id}", (*request).operation)
	page("POST operations/{id}/answer", (*request).answer)
	page("POST operations/{id}/note", (*request).note)
	page("GET operations/{id}/settle", (*request).settleForm)
	page("POST operations/{id}/settle", (*request).settleIt)
	page("GET operations/{id}/proposal", (*request).proposalForm)
	page("POST operations/{id}/proposal", (*request).endProposal)
	page("GET operations/{id}/push", (*request).pushForm)
	page("POST operations/{id}/push", (*request).push)
	page("GET history", (*request).settledList)
	for pattern, serve := range map[string]func(*request) error{"GET restore": (*request).restore,
		"POST restore/keys": (*request).refuseKeys, "POST restore/marks": (*request).markLost} {
		page(pattern, func(v *request) error { return v.mayRestore(serve) })
	}
	page("GET erase", (*request).eraseForm)
	page("POST erase", (*request).erasePrincipal)
	page("GET find", (*request).findForm)
	page("POST find", (*request).find)
	page("GET ", (*request).nothing)
	for name, media := range map[string]string{"style.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"} {
		mux.HandleFunc("GET "+cfg.Prefix+name, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", media)
			http.ServeFileFS(w, r, assets, "pages/"+name)
		})
	}
	// A form of another site must not settle with the operator's cookie (CSRF): browsers say where a request comes from.
	csrf := http.NewCrossOriginProtection()
	csrf.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = (&request{handler: h, w: w, r: r}).fail(http.StatusForbidden, "This form came from another site",
			"Nothing was changed. Open the page here, and send its own form.")
	}))
	return secured(csrf.Handler(mux))
}

// secured sets what a browser has to know of every page: scripts, styles and pictures come from here alone, no other page
// may frame it, nobody keeps it, and no address of it is told to others.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		core.LimitSending(w, r)
		header := w.Header()
		header.Set("Content-Security-Policy",
			"default-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'; script-src 'none'")
		header.Set("X-Frame-Options", "DENY")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// request is one request of an operator.
type request struct {
	*handler
	w         http.ResponseWriter
	r         *http.Request
	principal core.Principal
	operator  *operations.Operator // nil: nobody is signed in, or no operator
	own       bool                 // it did not come from another site
}

// forOperators lets operators through, on every request anew (O-3).
func (h *handler) forOperators(serve func(v *request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		v := &request{handler: h, w: w, r: r, own: true}
		principal, err := h.Caller(r)
		if err != nil {
			principal = core.Principal{} // whatever came with an error is nobody
		}
		operator, problem := h.ops.Operator(r, principal, err)
		switch {
		case problem == nil:
			v.principal, v.operator = principal, operator
		case problem.Status == http.StatusUnauthorized:
			_ = v.notSignedIn()
			return
		case problem.Status == http.StatusForbidden:
			_ = v.failAbout(failure{Status: http.StatusForbidden, Heading: "You are no operator",
				Another: cmp.Or(h.SignOut, h.SignIn),
				Text:    "Your login is valid, but it has no role that may look at operations. Nothing is shown.",
				Quotes:  []quote{{"You are", principal.Name()}, {"What is missing", problem.Detail}}})
			return
		default:
			_ = v.fail(problem.Status, "The pages are mounted wrongly", problem.Detail)
			return
		}
		if tooLong(r.URL.Query()) {
			_ = v.fail(http.StatusBadRequest, "The address is too long", fieldTooLong)
			return
		}
		if err := serve(v); err != nil {
			v.failed(err)
		}
	})
}

// notSignedIn is the page for nobody. A session can end while a form is filled in: then the page is that form, as it was
// sent, and what it says is checked anew when it is sent again. Nothing of it is kept.
func (v *request) notSignedIn() error {
	page := failure{Status: http.StatusUnauthorized, Heading: "You are not signed in", Link: v.SignIn, Reopen: isRead(v.r),
		Text: "These pages are for operators of this service."}
	if v.form() != nil {
		page.Text = "Your session has ended. Nothing was settled by this sending, and nothing else was changed. " +
			"Sign in in another tab, come back, and send the form again: all of it is checked then."
	}
	if in, err := url.Parse(v.SignIn); err == nil && v.SignIn != "" && page.Reopen && v.r.URL.Path != v.Prefix {
		query := in.Query()
		query.Set("return", v.r.URL.RequestURI())
		in.RawQuery = query.Encode()
		page.Link = in.String()
	}
	return v.failAbout(page)
}

// failed shows an error of the store.
func (v *request) failed(err error) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		_ = v.fail(http.StatusNotFound, "There is no such operation",
			"It may be of another issuer or tenant, or its record is gone: after retention and tombstone nothing is left of it.")
	case errors.Is(err, core.ErrScoping):
		_ = v.fail(http.StatusInternalServerError, "No key can be found",
			"This service says otherwise than before what belongs to the scope of a key. Its Config.Scoping has to be put right. "+
				"Operations can be found by their ids.")
	case errors.Is(err, context.Canceled) && v.r.Context().Err() != nil: // nobody waits for the page any more
	default:
		v.operator.Failed(v.r.Context(), fmt.Errorf("idem: inspect: the page %s: %w", v.r.URL.Path, err))
		v.w.Header().Set("Retry-After", "2")
		_ = v.fail(http.StatusServiceUnavailable, "The store does not answer",
			"The page could not be read, and nothing was changed. Try again in a moment.")
	}
}

// nothing is the page of every other path.
func (v *request) nothing() error {
	return v.fail(http.StatusNotFound, "There is no such page", "Begin with the overview.")
}
