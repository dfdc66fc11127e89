package interop_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v84"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/ginidem"
)

// stripeProblem renders problems in the form of Stripe's errors. Without the member "error", stripe-node takes a refusal
// for a success.
func stripeProblem(_ *http.Request, p *core.Problem) *core.Reply {
	kind := "invalid_request_error"
	switch {
	case p.Code == core.CodeKeyReused:
		kind = "idempotency_error"
	case p.Status >= 500:
		kind = "api_error"
	}
	body, err := json.Marshal(map[string]any{"error": map[string]any{
		"type": kind, "code": p.Code, "message": p.Detail, "operation": p.Operation,
	}})
	if err != nil {
		return nil // the library's own form
	}
	reply := p.Reply() // status, Retry-After
	reply.Header.Set("Content-Type", "application/json")
	reply.Header.Set("Stripe-Should-Retry", strconv.FormatBool(p.RetryAfter > 0))
	reply.Body = body
	return reply
}

// newStripeForm starts an API with errors in Stripe's form. Requests with the amount 1 block until release is closed.
func newStripeForm(t *testing.T, running, release chan struct{}) (addr string) {
	t.Helper()
	gin.SetMode(gin.ReleaseMode)
	idem, err := core.New(core.Config{
		Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}, RenderProblem: stripeProblem,
	})
	require.NoError(t, err)
	r := gin.New()
	find := func(c *gin.Context) (authctx.Principal, error) { return principal(c.Request.Header) }
	r.POST("/v1/charges", ginidem.Bridge(find), ginidem.Idempotent(idem), func(c *gin.Context) {
		if c.PostForm("amount") == "101" {
			close(running)
			<-release
		}
		c.JSON(http.StatusOK, charge{ID: "ch_1", Object: "charge", Amount: 100})
	})
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// A client of Stripe's understands why it was refused, and whether a repeat helps.
//
// CONTRACT P-1, M-1, M-2
func TestProblemsInStripesForm(t *testing.T) {
	running, release := make(chan struct{}), make(chan struct{})
	addr := newStripeForm(t, running, release)
	client := newStripe(t, addr, 0)
	pay := func(intent int, key string) *stripe.Error {
		params := payment(intent)
		params.SetIdempotencyKey(key)
		_, err := client.V1Charges.Create(t.Context(), params)
		if err == nil {
			return nil
		}
		var refused *stripe.Error
		require.ErrorAs(t, err, &refused)
		return refused
	}
	require.Nil(t, pay(2, "order-2"))
	reused := pay(3, "order-2")
	require.Equal(t, stripe.ErrorTypeIdempotency, reused.Type)
	require.EqualValues(t, core.CodeKeyReused, reused.Code)
	require.Equal(t, http.StatusConflict, reused.HTTPStatusCode)
	require.Equal(t, "false", reused.LastResponse.Header.Get("Stripe-Should-Retry"))

	first := make(chan *stripe.Error)
	go func() { first <- pay(1, "order-1") }()
	<-running
	inFlight := pay(1, "order-1")
	require.EqualValues(t, core.CodeInFlight, inFlight.Code)
	require.Equal(t, "true", inFlight.LastResponse.Header.Get("Stripe-Should-Retry"))
	require.NotEmpty(t, inFlight.LastResponse.Header.Get("Retry-After"))
	close(release)
	require.Nil(t, <-first)

	// What stripe-node looks at: the member "error", in any refusal.
	r := httptest.NewRequest(http.MethodPost, "http://"+addr+"/v1/charges", strings.NewReader(""))
	r.RequestURI = ""
	r.Header.Set("Authorization", "Bearer "+apiKey)
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, res.Body.Close()) }()
	var body apiError
	require.NoError(t, json.NewDecoder(res.Body).Decode(&body))
	require.EqualValues(t, core.CodeKeyMissing, body.Error.Code)
	http.DefaultClient.CloseIdleConnections()
}
