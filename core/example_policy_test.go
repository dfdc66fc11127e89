package core_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// The policy for the users of the API, and a problem that says where it is. On Gin: r.GET("/idempotency",
// gin.WrapH(idem.PolicyHandler())). On Echo: e.GET("/idempotency", echo.WrapHandler(idem.PolicyHandler())).
func ExampleModule_PolicyHandler() {
	idem, err := core.New(core.Config{
		Store:     memstore.New(), // for money use gormstore
		Routes:    core.Routes{"POST /v1/payments/:id/refunds": {Recovery: core.Park}},
		PolicyURL: "/idempotency",
	})
	must(err)
	mux := http.NewServeMux()
	mux.Handle("/idempotency", idem.PolicyHandler())

	request := httptest.NewRequest(http.MethodGet, "/idempotency", nil)
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, request)
	fmt.Println(answer.Header().Get("Content-Type"))
	fmt.Printf("%.60s...\n", answer.Body)

	request.Header.Set("Accept", "text/html, */*;q=0.8") // a browser
	answer = httptest.NewRecorder()
	mux.ServeHTTP(answer, request)
	fmt.Println(answer.Header().Get("Content-Type"))
	fmt.Println(strings.Contains(answer.Body.String(), "<code>POST /v1/payments/{id}/refunds</code>"))
	// Output:
	// application/json
	// {"header":"Idempotency-Key","profile":"AUTH-19","routes":[{"...
	// text/html; charset=utf-8
	// true
}
