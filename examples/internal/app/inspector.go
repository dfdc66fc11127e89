package app

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/inspect"
)

// The pages for operators, and the sign-in that the browser gets its cookie from. A real app has a login of its own.
const (
	inspectorPath = "/idem/"
	signInPath    = "/idem-sign-in"
	signInCookie  = "idem-operator"
)

// newInspector returns the pages for operators: who calls is in the cookie of the sign-in.
func (a *App) newInspector() (http.Handler, error) {
	return inspect.New(inspect.Config{
		Module:  a.Idem,
		Prefix:  inspectorPath,
		SignIn:  signInPath,
		SignOut: signInPath,
		Settle:  "POST /v1/operations/:id/settle",
		Retry:   "POST /v1/operations/:id/retry",
		GiveUp:  "POST /v1/operations/:id/give-up",
		Refuse:  "POST /v1/keys/refusals",
		Mark:    "POST /v1/operations/marks",
		Erase:   "POST /v1/erasures",
		Caller: func(r *http.Request) (authctx.Principal, error) {
			cookie, err := r.Cookie(signInCookie)
			if err != nil {
				return authctx.Principal{}, err
			}
			return a.Verifier.Verify(cookie.Value)
		},
		Numbers: a.numbers,
	})
}

// inspectorRoutes are what the pages change, for the table of routes.
func inspectorRoutes() core.Routes {
	return core.Routes{
		"POST /idem/find":                    {Exempt: "looks an operation up; the key is in the body, so that no log has it"},
		"POST /idem/operations/:id/answer":   {Exempt: "shows an answer; reading it is logged"},
		"POST /idem/operations/:id/settle":   {Exempt: "runs the guarded POST /v1/operations/:id/settle, with the form's key"},
		"POST /idem/operations/:id/proposal": {Exempt: "runs the guarded POST /v1/operations/:id/settle, with the form's key"},
		"POST /idem/operations/:id/push":     {Exempt: "runs POST /v1/operations/:id/retry or give-up, which are guarded"},
		"POST /idem/operations/:id/note":     {Exempt: "writes a note; sent twice, it is one"},
		"POST /idem/restore/keys":            {Exempt: "runs POST /v1/keys/refusals, which is guarded, with the form's key"},
		"POST /idem/restore/marks":           {Exempt: "runs POST /v1/operations/marks, which is guarded, with the form's key"},
		"POST /idem/erase":                   {Exempt: "runs POST /v1/erasures, which is guarded, with the form's key"},
		"POST /idem-sign-in":                 {Exempt: "sets the cookie of the demo; moves no money"},
	}
}

// signIn is the sign-in of the example. In a real app it is the login that operators have already.
type signIn struct {
	settings Settings
	verifier *authctx.Verifier
	secret   string // of the link that is printed at the start, beside the operator's token; "": none is printed
}

func (a *App) newSignIn() http.Handler {
	s := signIn{settings: a.Settings, verifier: a.Verifier}
	if s.settings.JWKSURL == "" { // else the app cannot make tokens
		s.secret = s.settings.JWTSecret
		a.signInLink = signInPath + "?ticket=" + s.ticket(time.Now().Add(tokenLife))
	}
	return secured(http.NewCrossOriginProtection().Handler(s))
}

// ticket lets an operator in until a time. It holds for every start of the app with this secret: the demo's server dies, and
// its operator stays.
func (s signIn) ticket(until time.Time) string {
	end := strconv.FormatInt(until.Unix(), 36)
	mac := hmac.New(sha256.New, []byte(s.secret))
	mac.Write([]byte(signInPath + "?" + end))
	return end + "_" + hex.EncodeToString(mac.Sum(nil))
}

// admits reports whether a ticket is one of this app, and its time is not over.
func (s signIn) admits(ticket string) bool {
	end, _, _ := strings.Cut(ticket, "_")
	seconds, err := strconv.ParseInt(end, 36, 64)
	until := time.Unix(seconds, 0)
	return err == nil && s.secret != "" && hmac.Equal([]byte(ticket), []byte(s.ticket(until))) && time.Now().Before(until)
}

// tokenOf makes a token for one of the callers; "" if there is none of that name.
func (s signIn) tokenOf(name string) string {
	made, _ := s.settings.tokens(time.Now()) // with an error there are none
	for _, t := range made {
		if t.name == name {
			return t.text
		}
	}
	return ""
}

// secured is what the page needs: it has no script, and nothing of another host.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; form-action 'self'")
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// ServeHTTP shows the form, and takes a token, the ticket of the printed link or, in the demo, the name of a ready-made one.
// It also signs out.
func (s signIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		switch ticket := r.URL.Query().Get("ticket"); {
		case ticket == "": // no cookie is taken away: any site can make a browser send this
			s.show(w, http.StatusOK, "")
		case !s.admits(ticket):
			s.show(w, http.StatusUnauthorized, "This link is of an app with another JWT_SECRET, or older than a day.")
		default:
			enter(w, r, s.tokenOf(operatorName))
		}
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	if r.PostFormValue("out") != "" {
		setCookie(w, r, "", -1)
		s.show(w, http.StatusOK, "")
		return
	}
	text := r.PostFormValue("token")
	if name := r.PostFormValue("as"); name != "" && s.settings.isDemo() { // anybody could make these tokens anyway
		text = s.tokenOf(name)
	}
	if _, err := s.verifier.Verify(text); err != nil {
		s.show(w, http.StatusUnauthorized, "This token is not valid.")
		return
	}
	enter(w, r, text)
}

// enter gives the browser its cookie, and the way to the pages.
func enter(w http.ResponseWriter, r *http.Request, token string) {
	setCookie(w, r, token, 0)
	http.Redirect(w, r, returnPath(r), http.StatusSeeOther)
}

// returnPath is the page to go back to, which the inspector has put into the link: one of its own, and no other.
func returnPath(r *http.Request) string {
	u, err := url.Parse(r.URL.Query().Get("return"))
	if err != nil || u.Host != "" || u.Scheme != "" || strings.Contains(u.Path, `\`) ||
		!strings.HasPrefix(path.Clean(u.Path)+"/", inspectorPath) {
		return inspectorPath
	}
	return u.RequestURI()
}

// setCookie sets the cookie until the browser ends; age -1 takes it away.
func setCookie(w http.ResponseWriter, r *http.Request, token string, age int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure, but on the machine of somebody who tries the app without TLS
		Name: signInCookie, Value: token, Path: inspectorPath, MaxAge: age, // no other path gets it
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil || !isThisMachine(r.Host),
	})
}

// isThisMachine reports whether a browser that asks this host speaks to its own machine. A proxy that ends TLS is asked by
// another name.
func isThisMachine(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return name == "localhost" || net.ParseIP(name).IsLoopback()
}

func (s signIn) show(w http.ResponseWriter, status int, problem string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	var names []string
	if s.settings.isDemo() {
		for _, who := range callers {
			names = append(names, who.name)
		}
	}
	page := struct {
		Prefix, Problem, Operator string
		Names                     []string
	}{inspectorPath, problem, operatorName, names}
	_ = signInPage.Execute(w, page) // an error means that the connection is broken
}

var signInPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in</title>
<link rel="icon" href="{{.Prefix}}icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="{{.Prefix}}style.css">
</head>
<body>
<main>
<h1>Sign in to the demo</h1>
{{with .Problem}}<p class="problem" role="alert">{{.}}</p>{{end}}
<div class="columns even">
{{if .Names}}<section><h2>As somebody of the demo</h2>
<form method="post">{{range .Names}}
<button name="as" value="{{.}}"{{if ne . $.Operator}} class="quiet"{{end}}>{{.}}</button>{{end}}</form></section>{{end}}
<section><h2>With a token</h2>
<form method="post"><label>Token <textarea class="id" name="token" rows="4" required spellcheck="false"></textarea></label>
<button>Sign in</button></form></section>
<section><h2>Or leave</h2>
<form method="post"><button name="out" value="1" class="quiet">Sign out</button></form></section>
</div>
</main>
</body>
</html>
`))
