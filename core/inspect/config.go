package inspect

import (
	"cmp"
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

// Config configures the pages. Module and Caller are required.
type Config struct {
	// Module is the app's module. It must have an observer, which is told who has read an answer
	// (EventAnswerRead); core.LogObserver logs it.
	Module *core.Module

	// Caller returns the principal whose login the request carries, as the app has verified it: from a session, a cookie, or
	// the context that the app's own middleware has filled. An error, or a principal without issuer or subject, is 401.
	// The observer is told the error's type; its text only where it has a method Reason() string, as those of authctx have.
	Caller func(r *http.Request) (core.Principal, error)

	// Prefix is the path below which the pages are mounted, as browsers see it. It begins and ends with "/". Default "/idem/".
	Prefix string

	// SignIn is the address of the app's login page. The page for somebody who is not signed in links to it, with the page that
	// was asked for as return=/idem/...: a login that goes back there has to check that it is below Prefix. Default none.
	SignIn string

	// SignOut is the address of the app's page to sign out, or in as somebody else. Each page links to it. The page signs
	// out by a POST, because any site can make a browser send a GET. Default none.
	SignOut string

	// Settle is the route by which the API settles, as Config.Routes of the module has it: "POST /v1/operations/:id/settle".
	// A settlement of the pages is a command of this route: same guards, same roles, and recorded under a key. Default none:
	// the pages only read.
	Settle string

	// Retry and GiveUp are the routes by which the API lets a half-done operation be tried again now, or parks it, likewise:
	// "POST /v1/operations/:id/retry", "POST /v1/operations/:id/give-up". Default none.
	Retry, GiveUp string

	// Refuse and Mark are the routes by which the API refuses keys after a restore, and marks what was lost, likewise:
	// "POST /v1/keys/refusals", "POST /v1/operations/marks". The pages have them for supervisors. Default none.
	Refuse, Mark string

	// Erase is the route by which the API erases a principal, likewise: "POST /v1/erasures". Default none.
	Erase string

	// Numbers, if set, shows supervisors what this process did in the last hour, for every tenant. It must be told of the
	// module's events: see [Numbers].
	Numbers *Numbers
}

// New returns the handler of the pages. It starts nothing, and sends nothing to the database. The error names every field
// that is wrong, and how to fix it.
func New(cfg Config) (http.Handler, error) {
	cfg.Prefix = cmp.Or(cfg.Prefix, "/idem/")
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case cfg.Module == nil:
		bad("Module: is required")
	case !operations.New(cfg.Module).Observed():
		bad("Module: its Config.Observer is not set, so nobody would learn who has read an answer; use core.LogObserver")
	}
	if cfg.Caller == nil {
		bad("Caller: is required; it says who is signed in, and without it nobody is")
	}
	if cfg.Prefix[0] != '/' || !strings.HasSuffix(cfg.Prefix, "/") || strings.ContainsAny(cfg.Prefix, " {}*:") ||
		strings.Contains(cfg.Prefix, "//") {
		bad("Prefix: %q is no path that begins and ends with a slash, such as \"/idem/\"", cfg.Prefix)
	}
	for field, address := range map[string]string{"SignIn": cfg.SignIn, "SignOut": cfg.SignOut} {
		if u, err := url.Parse(address); err != nil || u.Scheme != "" && u.Scheme != "https" && u.Scheme != "http" {
			bad("%s: %q is no address of a page, such as \"/login\"", field, address)
		}
	}
	var routes commands
	for _, r := range []struct {
		field, route string
		to           *commandRoute
		whole        bool
	}{{"Settle", cfg.Settle, &routes.settle, false}, {"Retry", cfg.Retry, &routes.retry, false},
		{"GiveUp", cfg.GiveUp, &routes.giveUp, false}, {"Refuse", cfg.Refuse, &routes.refuse, true},
		{"Mark", cfg.Mark, &routes.mark, true}, {"Erase", cfg.Erase, &routes.erase, true}} {
		var err error
		if *r.to, err = parseRoute(r.field, r.route, r.whole, cfg.Module); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("idem: inspect.New: %w", errors.Join(errs...))
	}
	return newHandler(cfg, routes), nil
}

// commands are the API's routes for what the pages change.
type commands struct{ settle, retry, giveUp, refuse, mark, erase commandRoute }

// commandRoute is one of them.
type commandRoute struct {
	pattern       string // as the router spells it; "": the pages only read
	roles         []string
	before, after string // the path around the id
	whole         bool   // it is about the whole service: its path has no id
}

// path returns the path of the command for an operation.
func (s commandRoute) path(id store.ID) string {
	if s.whole {
		return s.pattern
	}
	return s.before + id.String() + s.after
}

// allows reports whether the pages have this command for p.
func (s commandRoute) allows(p core.Principal) bool {
	return s.pattern != "" && p.HasAnyRole(s.roles...)
}

// parseRoute finds the id in the route, unless it is about the whole service. The module must have it in its table, behind
// the guards.
func parseRoute(field, route string, whole bool, module *core.Module) (commandRoute, error) {
	if route == "" {
		return commandRoute{}, nil
	}
	fail := func(why string) (commandRoute, error) {
		return commandRoute{}, fmt.Errorf("%s: %q %s", field, route, why)
	}
	pattern, isPost := strings.CutPrefix(route, "POST ")
	if !isPost || !strings.HasPrefix(pattern, "/") {
		return fail(`is no route such as "POST /v1/operations/:id/settle"`)
	}
	segments := strings.Split(pattern, "/")
	isID := func(s string) bool {
		return strings.HasPrefix(s, ":") || strings.HasPrefix(s, "{") && !strings.Contains(s, "...")
	}
	at := slices.IndexFunc(segments, isID)
	if whole && at >= 0 {
		return fail("has to have no parameter: it is about the whole service")
	}
	if at = max(at, 0); !whole && (!isID(segments[at]) || slices.ContainsFunc(segments[at+1:], isID)) {
		return fail(`has to have one parameter, the operation's id, such as ":id" or "{id}"`)
	}
	var roles []string
	if module != nil {
		declared := module.Declared()
		i := slices.IndexFunc(declared, func(d core.DeclaredRoute) bool {
			return d.Method == http.MethodPost && d.Pattern == pattern
		})
		if len(declared) > 0 && (i < 0 || !declared[i].Guarded()) {
			return fail("is not in the module's Routes with a recovery; declare it as the app's router spells it")
		}
		if operations.New(module).TakesTimedKeys(http.MethodPost, pattern) {
			return fail("takes timed keys, so that nobody could settle while keys are refused; set its KeyFormat to core.UUIDKey")
		}
		if i >= 0 {
			roles = declared[i].Policy.Roles
		}
	}
	return commandRoute{
		pattern: pattern,
		whole:   whole,
		roles:   roles,
		before:  strings.Join(append(slices.Clone(segments[:at]), ""), "/"),
		after:   strings.Join(append([]string{""}, segments[at+1:]...), "/"),
	}, nil
}
