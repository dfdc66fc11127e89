package quickstart_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
)

// The files of the quick start are whole programs: they start on an empty database, pay once, and end.
//
// CONTRACT C-1, C-2
func TestQuickStart(t *testing.T) {
	t.Parallel()
	for _, framework := range []string{"gin", "echo"} {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			const secret = "a secret of thirty-two bytes or so"
			app := apptest.Start(t, apptest.Build(t, "github.com/auth19/idem/examples/quickstart/"+framework), t.TempDir(),
				"DATABASE_URL="+pgtest.URL(t), "JWT_SECRET="+secret)
			token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
				"iss": "https://issuer.example", "aud": "payments", "sub": "customer-1", "roles": []string{"customer"},
				"exp": time.Now().Add(time.Hour).Unix(),
			}).SignedString([]byte(secret))
			require.NoError(t, err)
			pay := apptest.Request{Method: http.MethodPost, Path: "/v1/payments", Token: token, Body: `{"amount":"12.50"}`}

			require.Equal(t, "key_missing", app.Do(t, pay).Code())
			pay.Key = "one-key-per-intent"
			first, repeat := app.Do(t, pay), app.Do(t, pay)
			require.Equal(t, http.StatusCreated, first.Status, first.Body)
			require.Equal(t, first.Body, repeat.Body)
			require.Equal(t, "reused", repeat.Header.Get("Idempotency-Result"))
			pay.Body = `{"amount":"99.00"}`
			require.Equal(t, "key_reused", app.Do(t, pay).Code())
			pay.Key, pay.Body = "another", `{"id":3,"amount":"12.50"}`
			require.JSONEq(t, `{"id":2,"amount":"12.50"}`, app.Do(t, pay).Body, "a client does not choose the id")
			require.Zero(t, app.Stop(t), app.Output())
		})
	}
}
