package smoketest

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
)

var signInLink = regexp.MustCompile(`(?m)^http://[^/]+(/idem-sign-in\?ticket=\w+)$`)

// SignIn follows the printed link to the operators' pages. Who does not have it needs a token. Both apps pass it.
func SignIn(t *testing.T, program string) {
	t.Parallel()
	p := apptest.Start(t, program, t.TempDir(), "JWT_SECRET=a secret of somebody, in 32 bytes")
	get := func(path, cookie string) apptest.Response {
		r := apptest.Request{Method: http.MethodGet, Path: path, Header: http.Header{}}
		if cookie != "" {
			r.Header.Set("Cookie", cookie)
		}
		return p.Do(t, r)
	}
	link := signInLink.FindStringSubmatch(p.Output())
	require.NotNil(t, link, p.Output())

	entered := get(link[1], "")
	require.Equal(t, http.StatusSeeOther, entered.Status)
	require.Equal(t, "/idem/", entered.Header.Get("Location"))
	cookies, err := http.ParseSetCookie(entered.Header.Get("Set-Cookie"))
	require.NoError(t, err)
	require.Equal(t, "/idem/", cookies.Path)
	require.True(t, cookies.HttpOnly)
	require.False(t, cookies.Secure, "the app is asked on this machine, without TLS")
	require.Equal(t, http.SameSiteStrictMode, cookies.SameSite)
	require.Equal(t, http.StatusOK, get("/idem/", cookies.Name+"="+cookies.Value).Status)

	const out = "idem-operator=; Path=/idem/; Max-Age=0"
	for path, cookie := range map[string]string{
		"/idem-sign-in": out, "/idem-sign-in?ticket=": out,
		"/idem-sign-in?ticket=x": "", link[1] + "x": "",
	} {
		refused := get(path, "")
		set, _, _ := strings.Cut(refused.Header.Get("Set-Cookie"), "; HttpOnly")
		require.Equal(t, cookie, set, path)
		require.NotContains(t, refused.Body, "operator-1", "no ready-made token outside of the demo")
	}
	require.NotEqual(t, http.StatusOK, get("/idem/", "").Status)
	require.NotEqual(t, http.StatusOK, get("/idem/", cookies.Name+"="+p.Tokens[customer]).Status)
	require.NotContains(t, p.Log(), "ticket=")
}
