package core_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// ownDocument is a document as an app has it: its server has a path, its parameters have other names, and operations share
// an answer.
const ownDocument = `{
	"openapi": "3.1.0", "info": {"title": "shop", "version": "1"},
	"servers": [{"url": "https://{region}.shop.example/v1/"}, {"url": "/beta"}],
	"paths": {
		"/payments/{payment}/refunds": {
			"post": {
				"parameters": [{"name": "payment", "in": "path", "required": true, "schema": {"type": "string"}}],
				"responses": {
					"201": {"description": "refunded", "headers": {"idempotency-result": {"schema": {"type": "string"}}}},
					"409": {"$ref": "#/components/responses/Conflict"},
					"500": {"description": "broken", "content": {"text/plain": {}}}
				}
			},
			"get": {"responses": {"200": {"description": "refunds"}}}
		},
		"/payouts": {
			"post": {"parameters": [{"$ref": "#/components/parameters/Key"}], "responses": {"default": {"description": "anything"}}}
		},
		"/profile": {"patch": {"responses": {"409": {"$ref": "#/components/responses/Conflict"}}}}
	},
	"components": {
		"parameters": {"Key": {"name": "idempotency-key", "in": "header", "schema": {"type": "string"}}},
		"responses": {"Conflict": {"description": "conflict", "content": {
			"application/problem+json": {"schema": {"$ref": "#/components/schemas/Own"}}
		}}},
		"schemas": {"Own": {"type": "object"}}
	}
}`

func newMergeModule(t *testing.T) *core.Module {
	t.Helper()
	module, err := core.New(core.Config{Store: memstore.New(), Routes: core.Routes{
		"POST /v1/payments/:id/refunds": {Recovery: core.Park},
		"POST /v1/payouts":              {Recovery: core.Park},
		"POST /v1/internal":             {Recovery: core.Park},
		"PATCH /v1/profile":             {Exempt: "setting a name twice is setting it once"},
	}})
	require.NoError(t, err)
	return module
}

func decodedText(t *testing.T, text string) (object map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &object))
	return object
}

// The app's own words stay, and what the guards do is added to the operations that the document has.
func TestMergeOpenAPI(t *testing.T) {
	doc, module := decodedText(t, ownDocument), newMergeModule(t)
	missing, err := module.MergeOpenAPI(doc)
	require.NoError(t, err)
	require.Equal(t, []string{"POST /v1/internal"}, missing)
	doc = decoded(t, doc)

	refund := member(t, doc, "paths", "/payments/{payment}/refunds", "post")
	parameters := member(t, refund, "parameters").([]any)
	require.Len(t, parameters, 2)
	require.Equal(t, "payment", member(t, parameters[0], "name"))
	require.Equal(t, "Idempotency-Key", member(t, parameters[1], "name"))
	require.Equal(t, true, member(t, refund, "x-fern-idempotent"))
	require.NotContains(t, member(t, refund, "responses"), "2XX", "it has 201")
	success := member(t, refund, "responses", "201").(map[string]any)
	require.Equal(t, "refunded", success["description"])
	require.Contains(t, success["headers"], "Idempotent-Replayed")
	require.NotContains(t, success["headers"], "Idempotency-Result", "the app has it")
	conflict := member(t, refund, "responses", "409").(map[string]any)
	require.NotContains(t, conflict, "$ref")
	require.Regexp(t, "^conflict\n\nIdempotency: .*`key_reused`", conflict["description"])
	either := member(t, conflict, "content", "application/problem+json", "schema", "anyOf").([]any)
	require.Len(t, either, 2)
	require.Equal(t, "#/components/schemas/Own", member(t, either[0], "$ref"))
	require.Contains(t, member(t, refund, "responses", "500", "content"), "text/plain")
	require.Contains(t, member(t, refund, "responses", "500", "content"), "application/problem+json")
	require.Contains(t, member(t, refund, "responses"), "503")

	payout := member(t, doc, "paths", "/payouts", "post")
	require.Len(t, member(t, payout, "parameters"), 1, "the app has the header")
	require.Contains(t, member(t, payout, "responses"), "2XX")
	require.Equal(t, "conflict", member(t, doc, "components", "responses", "Conflict", "description"), "others share it")
	require.Equal(t, decodedText(t, ownDocument)["paths"].(map[string]any)["/profile"], member(t, doc, "paths", "/profile"))
	require.NotContains(t, member(t, doc, "paths", "/payments/{payment}/refunds", "get"), "parameters")

	again := decoded(t, doc)
	_, err = module.MergeOpenAPI(again)
	require.NoError(t, err)
	require.Equal(t, doc, decoded(t, again), "merged twice")
}

func TestMergeOpenAPIRefuses(t *testing.T) {
	const refers = `{"openapi": "3.0.3", "paths": {"/v1/payouts": {"post": {"responses": {"409": {"$ref": "%s"}}}}},
		"components": {"responses": {"A": {"$ref": "#/components/responses/A"}}}}`
	for name, test := range map[string]struct{ doc, want string }{
		"Swagger 2.0":           {`{"swagger": "2.0"}`, "convert Swagger 2.0 first"},
		"another schema":        {`{"openapi": "3.0.3", "components": {"schemas": {"IdempotencyProblem": {}}}}`, "is another one"},
		"no object":             {`{"openapi": "3.0.3", "paths": []}`, `"paths" is []interface {}`},
		"an answer from a file": {fmt.Sprintf(refers, "a.json"), "a.json"},
		"a circle":              {fmt.Sprintf(refers, "#/components/responses/A"), "responses/A"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newMergeModule(t).MergeOpenAPI(decodedText(t, test.doc))
			require.ErrorContains(t, err, test.want)
		})
	}
}
