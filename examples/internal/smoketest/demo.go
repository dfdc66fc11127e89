package smoketest

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/examples/internal/demo"
	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
)

// Demo tests the routes of the page: what they do in demo mode, and that they are not there otherwise. Both apps pass it.
func Demo(t *testing.T, program string) {
	t.Parallel()
	t.Run("page", func(t *testing.T) { t.Parallel(); page(t, program) })
	t.Run("faults", func(t *testing.T) { t.Parallel(); demoFaults(t, program) })
	t.Run("off", func(t *testing.T) { t.Parallel(); demoOff(t, program) })
}

// demoRoutes exist in demo mode only.
var demoRoutes = []apptest.Request{
	{Method: http.MethodGet, Path: "/demo/visitor"},
	{Method: http.MethodGet, Path: "/demo/files/shop.js"},
	{Method: http.MethodGet, Path: "/demo/payments"},
	{Method: http.MethodPost, Path: "/demo/payments", Body: payment("49.00", "pm_ok")},
}

func page(t *testing.T, program string) {
	p := apptest.Start(t, program, t.TempDir())
	require.Regexp(t, "^Open "+p.URL+"/ in a browser", p.Output(), "its address comes first")
	for _, path := range []string{"/", "/demo/files/shop.css", "/demo/files/shop.js", "/demo/files/pay.js"} {
		file := p.Do(t, apptest.Request{Method: http.MethodGet, Path: path})
		require.Equal(t, http.StatusOK, file.Status, path)
		require.Contains(t, file.Header.Get("Content-Security-Policy"), "default-src 'none'")
		require.Equal(t, "nosniff", file.Header.Get("X-Content-Type-Options"))
		require.NotContains(t, file.Body, "https://", "nothing of another host")
	}
	source := p.Do(t, apptest.Request{Method: http.MethodGet, Path: "/demo/files/demo.go"})
	require.Equal(t, http.StatusNotFound, source.Status)
	for _, r := range demoRoutes[2:] {
		require.Equal(t, http.StatusUnauthorized, p.Do(t, r).Status, "%s %s", r.Method, r.Path)
		r.Token = p.Tokens[operator]
		require.Equal(t, http.StatusForbidden, p.Do(t, r).Status, "%s %s", r.Method, r.Path)
	}
}

// demoFaults asks for each fault with a key and without one. The money is booked each time, and no answer comes. The repeat
// with the key gets the recorded answer, and the one without a key pays again.
func demoFaults(t *testing.T, program string) {
	a := &app{t: t, program: program, dir: t.TempDir()}
	a.start()
	var visitor struct {
		Token  string
		Faults []string
	}
	a.Do(t, apptest.Request{Method: http.MethodGet, Path: "/demo/visitor"}).Decode(t, &visitor)
	count := func(path string) int {
		var payments []struct{ ID string }
		list := apptest.Request{Method: http.MethodGet, Path: path, Token: visitor.Token}
		a.Do(t, list).Decode(t, &payments)
		return len(payments)
	}
	pid := a.PID()
	require.Contains(t, visitor.Faults, "lost")
	for i, fault := range visitor.Faults {
		for _, path := range []string{"/v1/payments", "/demo/payments"} {
			r := post(a, customer, path, fault, payment("49.00", "pm_ok"))
			r.Token, r.Header = visitor.Token, http.Header{demo.Header: {fault}}
			answer, err := a.Try(t.Context(), r)
			if fault == "slow" {
				require.NoError(t, err)
				require.Equal(t, http.StatusCreated, answer.Status)
			} else {
				require.Error(t, err, fault)
			}
			r.Header = nil
			a.untilAnswer(r)
		}
		require.Equal(t, i+1, count("/v1/payments"), fault)
		require.Equal(t, 2*(i+1), count("/demo/payments"), fault)
	}
	require.Equal(t, pid, a.PID())
	require.Contains(t, a.Log(), "death of the server")
	a.checkLog()
	require.Equal(t, 0, a.Stop(t), "the new process stops as the old one would have")
}

// untilAnswer repeats a request while nobody listens.
func (a *app) untilAnswer(r apptest.Request) {
	a.t.Helper()
	answer, err := a.Try(a.t.Context(), r)
	for deadline := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
		answer, err = a.Try(a.t.Context(), r)
	}
	require.NoError(a.t, err)
	require.Equal(a.t, http.StatusCreated, answer.Status, answer.Body)
}

// demoOff starts the app with each setting that ends demo mode.
func demoOff(t *testing.T, program string) {
	for i, env := range []string{"JWT_SECRET=a secret of somebody, in 32 bytes", "DATABASE_URL=" + pgtest.URL(t)} {
		t.Run([]string{"secret", "database"}[i], func(t *testing.T) {
			t.Parallel()
			p := apptest.Start(t, program, t.TempDir(), env)
			for _, r := range demoRoutes {
				for _, r.Token = range []string{"", p.Tokens[customer]} {
					require.Equal(t, http.StatusNotFound, p.Do(t, r).Status, "%s %s", r.Method, r.Path)
				}
			}
			explains := p.Do(t, apptest.Request{Method: http.MethodGet, Path: "/"})
			require.Equal(t, http.StatusOK, explains.Status)
			require.NotContains(t, explains.Body, "script")
			require.Contains(t, explains.Body, "without settings")

			paid := p.Do(t, apptest.Request{
				Method: http.MethodPost, Path: "/v1/payments", Token: p.Tokens[customer], Key: secret + "key",
				Body: payment("49.00", "pm_ok"), Header: http.Header{demo.Header: {"dies"}},
			})
			require.Equal(t, http.StatusCreated, paid.Status, "a fault is nothing that one can ask for")
		})
	}
}
