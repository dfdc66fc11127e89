package openapi_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/openapi"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// described returns the module's part of a document as JSON has it.
func described(t *testing.T, module *core.Module) map[string]any {
	t.Helper()
	return decoded(t, openapi.Document(module))
}

func decoded(t *testing.T, v any) (object map[string]any) {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &object))
	return object
}

// member finds a member of decoded JSON.
func member(t *testing.T, v any, names ...string) any {
	t.Helper()
	for _, name := range names {
		object, ok := v.(map[string]any)
		require.True(t, ok, "%q of %T", name, v)
		require.Contains(t, object, name)
		v = object[name]
	}
	return v
}

// codesIn returns the codes in the problems of an operation, by their status.
func codesIn(t *testing.T, operation any) map[core.Code]string {
	t.Helper()
	codes := map[core.Code]string{}
	for status, response := range member(t, operation, "responses").(map[string]any) {
		if status == "2XX" {
			continue
		}
		parts := member(t, response, "content", "application/problem+json", "schema", "allOf").([]any)
		for _, code := range member(t, parts[1], "properties", "code", "enum").([]any) {
			require.NotContains(t, codes, core.Code(code.(string)))
			codes[core.Code(code.(string))] = status
		}
	}
	return codes
}

// allKinds is a module with every kind of route, on a store that can do everything.
func allKinds(t *testing.T, changes ...func(*core.Config)) *core.Module {
	t.Helper()
	db, err := gorm.Open(sqlite.Open("file:"+filepath.Join(t.TempDir(), "test.db")+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)"), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	store, err := gormstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	cfg := core.Config{Store: store, Routes: core.Routes{
		"POST /v1/payments": {Recovery: core.Rollback, Roles: []string{"customer"}, MaxOpen: 10,
			RefuseRekeyed: true},
		"POST /v1/payments/:id/refunds": {Recovery: core.Resume, KeyFormat: core.UUIDKey},
		"PUT /v1/payouts/:payout":       {Recovery: core.Park, KeyFormat: core.TimedKey},
		"PATCH /v1/payouts/:id":         {Recovery: core.Park, ShadowUntil: time.Now().Add(time.Hour)},
		"DELETE /v1/files/*path":        {Recovery: core.Park},
		"LINK /v1/files/*path":          {Recovery: core.Park},
		"PATCH /v1/profile":             {Exempt: "setting a name twice is setting it once"},
		"GET /v1/payments/:id":          {Roles: []string{"customer"}},
	}}
	for _, change := range changes {
		change(&cfg)
	}
	module, err := core.New(cfg)
	require.NoError(t, err)
	return module
}

// What an operation says about its route.
func TestDocument(t *testing.T) {
	document := described(t, allKinds(t))
	paths := member(t, document, "paths").(map[string]any)
	require.ElementsMatch(t, []string{"/v1/payments", "/v1/payments/{id}/refunds", "/v1/payouts/{id}", "/v1/files/{path}"},
		slices.Collect(maps.Keys(paths)), "no exempt route, no safe one; paths that differ in names only are one")
	require.ElementsMatch(t, []string{"put", "patch"}, slices.Collect(maps.Keys(paths["/v1/payouts/{id}"].(map[string]any))))
	require.ElementsMatch(t, []string{"delete"}, slices.Collect(maps.Keys(paths["/v1/files/{path}"].(map[string]any))),
		"OpenAPI has no LINK")

	pay := member(t, paths, "/v1/payments", "post")
	require.Equal(t, true, member(t, pay, "x-fern-idempotent"))
	require.Equal(t, []any{map[string]any{"header": "Idempotency-Key", "name": "idempotency_key"}},
		member(t, document, "x-fern-idempotency-headers"))
	require.Subset(t, codesIn(t, pay), map[core.Code]string{core.CodeForbidden: "403", core.CodeTooManyOpen: "429",
		core.CodeRolledBack: "503", core.CodeSuspectedDuplicate: "409"})
	policy := member(t, pay, "x-idempotency").(map[string]any)
	listed := append(policy["repeatCodes"].([]any), policy["finalCodes"].([]any)...)
	var described []any
	for code := range codesIn(t, pay) {
		described = append(described, string(code))
	}
	require.ElementsMatch(t, described, listed, "each problem is in one of the lists")
	require.Subset(t, policy["repeatCodes"], []any{string(core.CodeInFlight), string(core.CodeStoreUnavailable)})
	require.Subset(t, policy["finalCodes"], []any{string(core.CodeKeyReused), string(core.CodeForbidden)})
	delete(policy, "repeatCodes")
	delete(policy, "finalCodes")
	require.Equal(t, map[string]any{
		"header": "Idempotency-Key", "required": true, "keyFormat": "any", "retentionSeconds": store.DefaultRetention.Seconds(),
		"resultHeader": "Idempotency-Result", "problemHeader": "Idempotency-Problem",
	}, policy)
	require.Equal(t, false, member(t, paths, "/v1/payouts/{id}", "patch", "x-idempotency", "required"), "in shadow")
	require.Equal(t, "uuidv7", member(t, paths, "/v1/payouts/{id}", "put", "x-idempotency", "keyFormat"))
	refunds := codesIn(t, member(t, paths, "/v1/payments/{id}/refunds", "post"))
	require.Contains(t, refunds, core.CodeStepsChanged)
	for _, code := range []core.Code{core.CodeForbidden, core.CodeTooManyOpen, core.CodeSuspectedDuplicate} {
		require.NotContains(t, refunds, code)
	}

	key := func(path, method string) map[string]any {
		parameters := member(t, paths, path, method, "parameters").([]any)
		return parameters[len(parameters)-1].(map[string]any)
	}
	require.Equal(t, true, key("/v1/payments", "post")["required"])
	require.Equal(t, false, key("/v1/payouts/{id}", "patch")["required"], "in shadow")
	require.Contains(t, key("/v1/payouts/{id}", "put")["description"], "at most 24 hours before the first request")
	require.NotContains(t, key("/v1/payments", "post")["schema"], "pattern")
	require.Contains(t, key("/v1/payments/{id}/refunds", "post")["schema"], "pattern")
}

// An app that renders problems in its own form describes them itself. Without a table there are no paths.
func TestDocumentWithoutSchemas(t *testing.T) {
	own := described(t, allKinds(t, func(cfg *core.Config) {
		cfg.RenderProblem = func(*http.Request, *core.Problem) *core.Reply { return nil }
		cfg.Header = "PayPal-Request-Id"
		cfg.PolicyURL = "/idempotency"
	}))
	text, err := json.Marshal(own)
	require.NoError(t, err)
	require.NotContains(t, string(text), "problem+json")
	require.NotContains(t, string(text), "Idempotency-Key")
	require.Contains(t, string(text), "The whole policy: /idempotency")
	require.NotContains(t, member(t, own, "components"), "schemas")

	require.Empty(t, member(t, described(t, withoutTable(t)), "paths"))
}
