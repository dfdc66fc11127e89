package openapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/openapi"
)

// The guards, added to a document of your own. What your document says stays: here an operation that has a 409 keeps it.
// The paths are spelled as in the table of routes.
func ExampleDocument() {
	idem, err := core.New(core.Config{
		Store:  memstore.New(), // for money use gormstore
		Routes: core.Routes{"POST /v1/payments": {Recovery: core.Park}},
	})
	must(err)
	var own map[string]any
	must(json.Unmarshal([]byte(`{
		"openapi": "3.1.0", "info": {"title": "shop", "version": "1"},
		"paths": {"/v1/payments": {"post": {"responses": {"201": {"description": "paid"}}}}}
	}`), &own))

	guards := openapi.Document(idem)
	own["components"] = guards["components"] // with components of your own, add these to them
	for path, item := range own["paths"].(map[string]any) {
		described, _ := guards["paths"].(map[string]any)[path].(map[string]any)
		for method, operation := range described {
			mine, ok := item.(map[string]any)[method].(map[string]any)
			if !ok {
				continue
			}
			guard := operation.(map[string]any)
			responses := guard["responses"].(map[string]any)
			maps.Copy(responses, mine["responses"].(map[string]any))
			mine["responses"] = responses
			mine["parameters"] = guard["parameters"] // with parameters of your own, append the last one: the key
		}
	}

	pay := own["paths"].(map[string]any)["/v1/payments"].(map[string]any)["post"].(map[string]any)
	key := pay["parameters"].([]any)[0].(map[string]any)
	fmt.Println("parameter:", key["name"], "required:", key["required"])
	responses := pay["responses"].(map[string]any)
	fmt.Println("201:", responses["201"].(map[string]any)["description"])
	fmt.Println("409:", responses["409"].(map[string]any)["description"])
	// Output:
	// parameter: Idempotency-Key required: true
	// 201: paid
	// 409: Idempotency: `in_flight` (First request still running), `key_expired` (Idempotency key expired), `key_reused` (Idempotency key used for another command), `key_too_old` (Idempotency key too old), `outcome_unknown` (Outcome unknown), `response_not_replayable` (Answer cannot be replayed).
}

// The policy for the users of the API, and a problem that says where it is. On Gin: r.GET("/idempotency",
// gin.WrapH(openapi.PolicyHandler(idem))). On Echo: e.GET("/idempotency", echo.WrapHandler(openapi.PolicyHandler(idem))).
func ExamplePolicyHandler() {
	idem, err := core.New(core.Config{
		Store:     memstore.New(), // for money use gormstore
		Routes:    core.Routes{"POST /v1/payments/:id/refunds": {Recovery: core.Park}},
		PolicyURL: "/idempotency",
	})
	must(err)
	mux := http.NewServeMux()
	mux.Handle("/idempotency", openapi.PolicyHandler(idem))

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

func must(err error) {
	if err != nil {
		panic(err)
	}
}
