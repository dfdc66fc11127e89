package openapi_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/openapi"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/adaptertest"
)

// What the guards answer is what the document says that they answer: status, headers, and body.
//
// CONTRACT P-1
func TestAnswersAreAsDescribed(t *testing.T) {
	idem := newModule(t)
	started, finished := make(chan struct{}), make(chan struct{})
	finish := sync.OnceFunc(func() { close(finished) })
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, _ any) { c.AbortWithStatus(http.StatusInternalServerError) }))
	r.GET("/idempotency", gin.WrapH(openapi.PolicyHandler(idem)))
	v1 := r.Group("/v1", ginidem.JWTGuard(adaptertest.NewVerifier(t)), ginidem.Idempotent(idem))
	created := func(c *gin.Context) { c.JSON(http.StatusCreated, gin.H{"id": c.Param("id")}) }
	v1.POST("/payments", func(c *gin.Context) {
		if c.GetHeader("X-Test") == "broken statement" {
			_ = gormstore.Tx(c.Request.Context()).Exec("SELECT nothing FROM nowhere").Error
		}
		if c.GetHeader("X-Test") == "short" {
			c.Header("Content-Length", "1000")
		}
		created(c)
	})
	v1.POST("/payments/:id/refunds", created)
	v1.PUT("/payouts/:payout", func(c *gin.Context) {
		switch c.GetHeader("X-Test") {
		case "fails":
			c.Status(http.StatusBadGateway)
			return
		case "lasts":
			close(started)
			<-finished
		}
		created(c)
	})
	v1.PATCH("/payouts/:id", created)
	v1.DELETE("/files/*path", created)
	require.NoError(t, ginidem.Audit(r, idem))
	client := adaptertest.Serve(t, r)
	t.Cleanup(finish) // before the server closes

	doc := described(t, idem, client.URL)
	seen := map[string]int{}
	do := func(call adaptertest.Call, want int, code core.Code) adaptertest.Answer {
		t.Helper()
		got := client.Do(call)
		require.NoError(t, got.Err)
		require.Equal(t, want, got.Status, got.Body)
		if code != "" {
			require.Contains(t, got.Body, `"code":"`+string(code)+`"`)
			seen[string(code)]++
		}
		requireAsDescribed(t, doc, client.Request(call), got)
		return got
	}
	v7 := func(at time.Time) string {
		id, err := uuid.NewV7()
		require.NoError(t, err)
		ms := at.UnixMilli()
		for i := range 6 {
			id[i] = byte(ms >> (40 - 8*i))
		}
		return id.String()
	}
	pay, refund := adaptertest.Call{Path: "/v1/payments", Key: "key-1", Body: `{"a":1}`}, adaptertest.Call{Path: "/v1/payments/7/refunds"}

	do(pay, http.StatusCreated, "")
	require.Equal(t, "true", do(pay, http.StatusCreated, "").Header.Get("Idempotent-Replayed"))
	refused := do(adaptertest.Call{Path: "/v1/payments", Key: "key-1", Body: `{"a":2}`}, http.StatusConflict, core.CodeKeyReused)
	require.Equal(t, `</idempotency>; rel="describedby"`, refused.Header.Get("Link"))
	do(refund, http.StatusBadRequest, core.CodeKeyMissing)
	do(adaptertest.Call{Path: refund.Path, Key: "a b"}, http.StatusBadRequest, core.CodeKeyInvalid)
	do(adaptertest.Call{Path: refund.Path + "?idempotency_key=1"}, http.StatusBadRequest, core.CodeKeyInURL)
	do(adaptertest.Call{Path: refund.Path, Key: "key-2", Token: "-"}, http.StatusUnauthorized, core.CodeUnauthenticated)
	do(adaptertest.Call{Path: pay.Path, Key: "key-2", Token: adaptertest.Sign(t, adaptertest.ClaimsOf("seller-1", "seller"))},
		http.StatusForbidden, core.CodeForbidden)
	do(adaptertest.Call{Path: refund.Path, Key: "key-2", Body: strings.Repeat("x", 2<<20)}, http.StatusRequestEntityTooLarge,
		core.CodeBodyTooLarge)
	do(adaptertest.Call{Path: pay.Path, Key: "key-3", Headers: map[string]string{"X-Test": "short"}},
		http.StatusInternalServerError, core.CodeAnswerIncomplete)

	payout := adaptertest.Call{Method: http.MethodPut, Path: "/v1/payouts/1"}
	payout.Key, payout.Headers = v7(time.Now()), map[string]string{"X-Test": "fails"}
	require.Equal(t, http.StatusBadGateway, client.Do(payout).Status)
	do(payout, http.StatusConflict, core.CodeOutcomeUnknown)
	payout.Key = v7(time.Now().Add(-48 * time.Hour))
	do(payout, http.StatusConflict, core.CodeKeyTooOld)
	payout.Key = v7(time.Now().Add(time.Hour))
	do(payout, http.StatusBadRequest, core.CodeKeyInvalid)
	payout.Key, payout.Headers = v7(time.Now()), map[string]string{"X-Test": "lasts"}
	first := make(chan adaptertest.Answer)
	go func() { first <- client.Do(payout) }()
	<-started
	require.NotEmpty(t, do(payout, http.StatusConflict, core.CodeInFlight).Header.Get("Retry-After"))
	finish()
	require.Equal(t, http.StatusCreated, (<-first).Status)

	do(adaptertest.Call{Method: http.MethodPatch, Path: "/v1/payouts/1"}, http.StatusCreated, "") // in shadow
	do(adaptertest.Call{Method: http.MethodDelete, Path: "/v1/files/a", Key: "no-uuid"}, http.StatusBadRequest, core.CodeKeyInvalid)
	require.Len(t, seen, 11)
}

// described is the module's part, completed with what the app answers.
func described(t *testing.T, idem *core.Module, url string) *openapi3.T {
	t.Helper()
	part := openapi.Document(idem)
	part["openapi"], part["info"] = "3.0.3", map[string]any{"title": "payments", "version": "1"}
	part["servers"] = []any{map[string]any{"url": url}}
	for _, item := range part["paths"].(map[string]any) {
		for _, operation := range item.(map[string]any) {
			responses := operation.(map[string]any)["responses"].(map[string]any)
			responses["201"] = map[string]any{"description": "created", "headers": responses["2XX"].(map[string]any)["headers"],
				"content": map[string]any{"application/json": map[string]any{"schema": map[string]any{"type": "object"}}}}
		}
	}
	return valid(t, part)
}

// requireAsDescribed requires of an answer that the document has it.
func requireAsDescribed(t *testing.T, doc *openapi3.T, r *http.Request, got adaptertest.Answer) {
	t.Helper()
	router, err := legacy.NewRouter(doc)
	require.NoError(t, err)
	route, parameters, err := router.FindRoute(r)
	require.NoError(t, err)
	require.NoError(t, openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: parameters, Route: route},
		Status:                 got.Status, Header: got.Header, Body: io.NopCloser(bytes.NewReader([]byte(got.Body))),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}))
}
