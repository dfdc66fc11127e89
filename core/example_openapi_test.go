package core_test

import (
	"encoding/json"
	"fmt"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// The guards, added to the app's own document. The document has a payment, and no internal route.
func ExampleModule_MergeOpenAPI() {
	idem, err := core.New(core.Config{
		Store: memstore.New(), // for money use gormstore
		Routes: core.Routes{
			"POST /v1/payments":        {Recovery: core.Park},
			"POST /internal/close/:id": {Recovery: core.Park},
		},
	})
	must(err)
	own := []byte(`{
		"openapi": "3.1.0", "info": {"title": "shop", "version": "1"},
		"paths": {"/v1/payments": {"post": {"responses": {"201": {"description": "paid"}}}}}
	}`)

	var doc map[string]any
	must(json.Unmarshal(own, &doc))
	missing, err := idem.MergeOpenAPI(doc)
	must(err)

	pay := doc["paths"].(map[string]any)["/v1/payments"].(map[string]any)["post"].(map[string]any)
	key := pay["parameters"].([]any)[0].(map[string]any)
	fmt.Println("parameter:", key["name"], "required:", key["required"])
	conflict := pay["responses"].(map[string]any)["409"].(map[string]any)
	fmt.Println("409:", conflict["description"])
	fmt.Println("not in the document:", missing)
	// Output:
	// parameter: Idempotency-Key required: true
	// 409: Idempotency: `in_flight` (First request still running), `key_expired` (Idempotency key expired), `key_reused` (Idempotency key used for another command), `key_too_old` (Idempotency key too old), `outcome_unknown` (Outcome unknown), `response_not_replayable` (Answer cannot be replayed).
	// not in the document: [POST /internal/close/{id}]
}
