package openapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
)

const (
	problemMedia = "application/problem+json"
	maxKey       = 255 // characters of a key (K-3)
)

// Names in the components of the document.
const (
	problemSchema  = "IdempotencyProblem"
	headerEcho     = "IdempotencyKeyEcho"
	headerResult   = "IdempotencyResult"
	headerReplayed = "IdempotentReplayed"
	headerProblem  = "IdempotencyProblem"
	headerRetry    = "IdempotencyRetryAfter"
)

// extension is the member of an operation with its policy.
const extension = "x-idempotency"

// Document returns what the guards add to the description of the app's API, as maps and slices like those that
// encoding/json decodes, but with whole numbers: "paths" with the key's header and the problems of every guarded route in
// the table, "components" that the paths refer to, and Fern's "x-fern-idempotency-headers". Each operation has
// "x-idempotency", its policy for other generators: see the package. It is valid for OpenAPI 3.0 and 3.1. With "openapi"
// and "info" added, it is a complete document. To add it to a document of your own, see the example.
//
// Path patterns are written in OpenAPI's form: "/v1/payments/:id" and "/v1/payments/{id...}" become "/v1/payments/{id}".
// "/v1/payments:batch" is a parameter for Gin and Echo, and a path for ServeMux and chi. In a pattern without braces it is
// taken for a parameter: rename the path in what Document returns.
//
// Exempt routes, methods that OpenAPI does not know, and the handlers of operations are not in it. Without Config.Routes
// it has no paths. With Config.RenderProblem the problems have no schema, because their form is the app's. On a route in
// shadow the key is not required yet. Each call returns maps of its own.
func Document(m *core.Module) map[string]any {
	d := m.Describe()
	components := map[string]any{"headers": headers()}
	if !d.OwnProblems {
		components["schemas"] = map[string]any{problemSchema: problemSchemaOf()}
	}
	paths := map[string]any{}
	shapes := map[string]string{} // in OpenAPI, paths that differ only in the names of their parameters are the same path
	for _, route := range d.Routes {
		if !describable(route.Method) {
			continue
		}
		path, parameters := pathOf(route.Pattern)
		if first, ok := shapes[nameless(path)]; ok {
			path, parameters = pathOf(first)
		}
		shapes[nameless(path)] = path
		item, _ := paths[path].(map[string]any)
		if item == nil {
			item = map[string]any{}
			paths[path] = item
		}
		operation := operationOf(d, route)
		operation["parameters"] = append(pathParameters(parameters), operation["parameters"].([]any)...)
		item[strings.ToLower(route.Method)] = operation
	}
	return map[string]any{
		"paths":      paths,
		"components": components,
		"x-fern-idempotency-headers": []any{map[string]any{
			"header": d.Header, "name": strings.ToLower(strings.ReplaceAll(d.Header, "-", "_")),
		}},
	}
}

// describable reports whether OpenAPI knows an unsafe method.
func describable(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// operationOf describes what the guards do in front of one route.
func operationOf(d core.Description, route core.DeclaredRoute) map[string]any {
	responses := map[string]any{"2XX": map[string]any{
		"description": "The answer to the command. A repeat gets the same answer.",
		"headers": headerRefs(map[string]string{
			d.Header: headerEcho, wire.HeaderResult: headerResult, wire.HeaderReplayed: headerReplayed,
		}),
	}}
	byStatus := map[int][]core.DescribedProblem{}
	for _, problem := range route.Problems {
		byStatus[problem.Status] = append(byStatus[problem.Status], problem)
	}
	for status, problems := range byStatus {
		responses[strconv.Itoa(status)] = problemResponse(d, status, problems)
	}
	return map[string]any{
		"parameters":        []any{keyParameter(d, route)},
		"responses":         responses,
		"x-fern-idempotent": true,
		extension:           extensionOf(d, route),
	}
}

// extensionOf is the policy of a route for generators of clients: what a template needs for a loop that repeats.
func extensionOf(d core.Description, route core.DeclaredRoute) map[string]any {
	again, final := []any{}, []any{} // no nil: they are lists in JSON
	for _, problem := range route.Problems {
		if problem.Again {
			again = append(again, string(problem.Code))
		} else {
			final = append(final, string(problem.Code))
		}
	}
	return map[string]any{
		"header":           d.Header,
		"required":         !inShadow(route),
		"keyFormat":        keyFormats[route.Policy.KeyFormat],
		"retentionSeconds": int64(route.Policy.Retention / time.Second),
		"resultHeader":     wire.HeaderResult,
		"problemHeader":    wire.HeaderProblem,
		"repeatCodes":      again,
		"finalCodes":       final,
	}
}

// keyFormats are the names of formats in the extension.
var keyFormats = map[core.KeyFormat]string{core.AnyKey: "any", core.UUIDKey: "uuid", core.TimedKey: "uuidv7"}

// inShadow reports whether the key of a route is not required yet.
func inShadow(route core.DeclaredRoute) bool { return time.Now().Before(route.Policy.ShadowUntil) }

// keyParameter describes the key's header on a route.
func keyParameter(d core.Description, route core.DeclaredRoute) map[string]any {
	r := route.Policy
	schema := map[string]any{"type": "string", "minLength": 1, "maxLength": maxKey + len(`""`)}
	text := "Chosen by the client: one key for each command, the same in all its repeats. Best is a UUID of version 7."
	switch r.KeyFormat {
	case core.UUIDKey:
		text = "Chosen by the client: one UUID in lower case for each command, the same in all its repeats."
	case core.TimedKey:
		text = fmt.Sprintf("Chosen by the client: one UUID of version 7 in lower case for each command, the same in all its "+
			"repeats. It is made at most %s before the first request.", inWords(r.KeyAge))
	}
	if r.KeyFormat != core.AnyKey {
		schema["pattern"] = `^"?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"?$`
	}
	text += fmt.Sprintf(" A repeat gets the recorded answer for %s.", inWords(r.Retention))
	required := !inShadow(route)
	if !required {
		text += " It will be required from " + r.ShadowUntil.UTC().Format(time.RFC3339) + " on."
	}
	if d.PolicyURL != "" {
		text += " The whole policy: " + d.PolicyURL
	}
	return map[string]any{"name": d.Header, "in": "header", "required": required, "description": text, "schema": schema}
}

// problemResponse describes the problems of one status.
func problemResponse(d core.Description, status int, problems []core.DescribedProblem) map[string]any {
	titles := make([]string, 0, len(problems))
	enum := make([]any, 0, len(problems))
	again := false
	for _, problem := range problems {
		titles = append(titles, fmt.Sprintf("`%s` (%s)", problem.Code, problem.Title))
		enum = append(enum, string(problem.Code))
		again = again || problem.Again
	}
	refs := map[string]string{d.Header: headerEcho, wire.HeaderResult: headerResult, wire.HeaderProblem: headerProblem}
	if again {
		refs["Retry-After"] = headerRetry
	}
	response := map[string]any{
		"description": "Idempotency: " + strings.Join(titles, ", ") + ".", "headers": headerRefs(refs),
	}
	if !d.OwnProblems {
		response["content"] = map[string]any{problemMedia: map[string]any{"schema": map[string]any{"allOf": []any{
			map[string]any{"$ref": "#/components/schemas/" + problemSchema},
			map[string]any{"type": "object", "properties": map[string]any{
				"code": map[string]any{"enum": enum}, "status": map[string]any{"enum": []any{status}},
			}},
		}}}}
	}
	return response
}

// problemSchemaOf is the schema of [core.Problem.MarshalJSON].
func problemSchemaOf() map[string]any {
	text := func(description string) map[string]any {
		return map[string]any{"type": "string", "description": description}
	}
	return map[string]any{
		"type":        "object",
		"description": "A refusal (RFC 9457). Programs decide by code.",
		"required":    []any{"type", "title", "status", "detail", "code"},
		"properties": map[string]any{
			"type":   map[string]any{"type": "string", "format": "uri", "description": "The kind of problem."},
			"title":  text("The same for all problems of the code."),
			"status": map[string]any{"type": "integer", "description": "The status of the answer."},
			"detail": text("For people."),
			"code":   text("The kind of problem, for programs."),
			"operation": map[string]any{"type": "string", "pattern": "^[0-9a-f]{64}$",
				"description": "The operation to ask about, where there is one."},
			"outcome": map[string]any{"type": "string", "enum": []any{"succeeded", "refused"},
				"description": "With key_expired: what became of the command."},
			"safe_new_key": map[string]any{"type": "boolean", "enum": []any{false},
				"description": "Where it is there, a new key might carry out the command a second time."},
			"answer_status": map[string]any{"type": "integer",
				"description": "With response_not_replayable: the status of the first answer."},
			"answer_location": text("With response_not_replayable: the Location of the first answer."),
		},
	}
}

// headers describes the headers of the answers.
func headers() map[string]any {
	header := func(schema map[string]any, description string) map[string]any {
		return map[string]any{"schema": schema, "description": description}
	}
	return map[string]any{
		headerEcho: header(map[string]any{"type": "string"}, "The key, as it was sent."),
		headerResult: header(map[string]any{"type": "string",
			"enum": []any{wire.ResultCreated, wire.ResultReused, wire.ResultUnknown, wire.ResultNotApplied}},
			"created: this is the first answer, and it is recorded. reused: this is the recorded answer. unknown: the command "+
				"may have been carried out; a new key might carry it out a second time. not_applied: nothing was carried out, and "+
				"nothing is recorded."),
		headerProblem:  header(map[string]any{"type": "string"}, "The code of the problem. Other answers do not have it."),
		headerReplayed: header(map[string]any{"type": "string", "enum": []any{"true"}}, "This is the recorded answer."),
		headerRetry: header(map[string]any{"type": "integer", "minimum": 1},
			"Seconds. Repeat the command with the same key after them. Without this header, do not repeat it."),
	}
}

func headerRefs(names map[string]string) map[string]any {
	refs := make(map[string]any, len(names))
	for name, component := range names {
		refs[name] = map[string]any{"$ref": "#/components/headers/" + component}
	}
	return refs
}

func pathParameters(names []string) []any {
	parameters := make([]any, 0, len(names)+1)
	for _, name := range names {
		parameters = append(parameters, map[string]any{"name": name, "in": "path", "required": true,
			"schema": map[string]any{"type": "string"}})
	}
	return parameters
}
