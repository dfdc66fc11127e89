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

	for _, path := range []string{"/idem-sign-in", "/idem-sign-in?ticket=", "/idem-sign-in?ticket=x", link[1] + "x"} {
		refused := get(path, "")
		require.Empty(t, refused.Header.Get("Set-Cookie"), "any site can make a browser send a GET: %s", path)
		require.NotContains(t, refused.Body, "operator-1", "no ready-made token outside of the demo")
	}
	for site, status := range map[string]int{"same-origin": http.StatusOK, "cross-site": http.StatusForbidden} {
		left := p.Do(t, apptest.Request{Method: http.MethodPost, Path: "/idem-sign-in", Body: "out=1", Header: http.Header{
			"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {site}}})
		require.Equal(t, status, left.Status, site)
		set, _, _ := strings.Cut(left.Header.Get("Set-Cookie"), "; HttpOnly")
		require.Equal(t, status == http.StatusOK, set == "idem-operator=; Path=/idem/; Max-Age=0", set)
	}
	require.NotEqual(t, http.StatusOK, get("/idem/", "").Status)
	require.NotEqual(t, http.StatusOK, get("/idem/", cookies.Name+"="+p.Tokens[customer]).Status)
	require.NotContains(t, p.Log(), "ticket=")
}
