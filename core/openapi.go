package core

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Names in the components of OpenAPI.
const (
	problemSchema  = "IdempotencyProblem"
	headerEcho     = "IdempotencyKeyEcho"
	headerResult   = "IdempotencyResult"
	headerReplayed = "IdempotentReplayed"
	headerProblem  = "IdempotencyProblem"
	headerRetry    = "IdempotencyRetryAfter"
)

// OpenAPI returns what the guards add to the description of the app's API, as maps and slices like those that
// encoding/json decodes: "paths" with the key's header and the problems of every guarded route in the table, "components"
// that the paths refer to, and Fern's "x-fern-idempotency-headers". It is valid for OpenAPI 3.0 and 3.1. With "openapi"
// and "info" added, it is a complete document. [Module.MergeOpenAPI] adds it to the app's own document.
//
// Path patterns are written in OpenAPI's form: "/v1/payments/:id" and "/v1/payments/{id...}" become "/v1/payments/{id}".
// Exempt routes, methods that OpenAPI does not know, and the handlers of operations are not in it. Without Config.Routes
// it has no paths. With Config.RenderProblem the problems have no schema, because their form is the app's. On a route in
// shadow the key is not required yet. Each call returns maps of its own.
func (m *Module) OpenAPI() map[string]any {
	components := map[string]any{"headers": m.openAPIHeaders()}
	if m.cfg.RenderProblem == nil {
		components["schemas"] = map[string]any{problemSchema: problemSchemaOf()}
	}
	paths := map[string]any{}
	shapes := map[string]string{} // in OpenAPI, paths that differ only in the names of their parameters are the same path
	for _, d := range m.Declared() {
		r := m.routes[routeKey{d.Method, d.Pattern}]
		if !r.guarded() || !describable(d.Method) {
			continue
		}
		path, parameters := openAPIPath(d.Pattern)
		if first, ok := shapes[nameless(path)]; ok {
			path, parameters = openAPIPath(first)
		}
		shapes[nameless(path)] = path
		item, _ := paths[path].(map[string]any)
		if item == nil {
			item = map[string]any{}
			paths[path] = item
		}
		operation := m.operationOf(r)
		operation["parameters"] = append(pathParameters(parameters), operation["parameters"].([]any)...)
		item[strings.ToLower(d.Method)] = operation
	}
	return map[string]any{
		"paths":      paths,
		"components": components,
		"x-fern-idempotency-headers": []any{map[string]any{
			"header": m.cfg.Header, "name": strings.ToLower(strings.ReplaceAll(m.cfg.Header, "-", "_")),
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
func (m *Module) operationOf(r *route) map[string]any {
	responses := map[string]any{"2XX": map[string]any{
		"description": "The answer to the command. A repeat gets the same answer.",
		"headers": headerRefs(map[string]string{
			m.cfg.Header: headerEcho, HeaderResult: headerResult, HeaderReplayed: headerReplayed,
		}),
	}}
	byStatus := map[int][]Code{}
	for _, code := range m.codesOf(r) {
		status := m.cfg.Profile.kind(code).status
		byStatus[status] = append(byStatus[status], code)
	}
	for status, codes := range byStatus {
		responses[strconv.Itoa(status)] = m.problemResponse(status, codes)
	}
	return map[string]any{
		"parameters":        []any{m.keyParameter(r)},
		"responses":         responses,
		"x-fern-idempotent": true,
	}
}

// keyParameter describes the key's header on a route.
func (m *Module) keyParameter(r *route) map[string]any {
	schema := map[string]any{"type": "string", "minLength": 1, "maxLength": maxKeyLen + len(`""`)}
	text := "Chosen by the client: one key for each command, the same in all its repeats. Best is a UUID of version 7."
	switch r.KeyFormat {
	case UUIDKey:
		text = "Chosen by the client: one UUID in lower case for each command, the same in all its repeats."
	case TimedKey:
		text = fmt.Sprintf("Chosen by the client: one UUID of version 7 in lower case for each command, the same in all its "+
			"repeats. It is made at most %s before the first request.", inWords(r.KeyAge))
	}
	if r.KeyFormat != AnyKey {
		schema["pattern"] = `^"?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"?$`
	}
	text += fmt.Sprintf(" A repeat gets the recorded answer for %s.", inWords(r.Retention))
	required := !r.inShadow()
	if !required {
		text += " It will be required from " + r.ShadowUntil.UTC().Format(time.RFC3339) + " on."
	}
	if m.cfg.PolicyURL != "" {
		text += " The whole policy: " + m.cfg.PolicyURL
	}
	return map[string]any{"name": m.cfg.Header, "in": "header", "required": required, "description": text, "schema": schema}
}

// problemResponse describes the problems of one status.
func (m *Module) problemResponse(status int, codes []Code) map[string]any {
	titles := make([]string, 0, len(codes))
	enum := make([]any, 0, len(codes))
	again := false
	for _, code := range codes {
		titles = append(titles, fmt.Sprintf("`%s` (%s)", code, problemKinds[code].title))
		enum = append(enum, string(code))
		again = again || problemKinds[code].again
	}
	headers := map[string]string{m.cfg.Header: headerEcho, HeaderResult: headerResult, HeaderProblem: headerProblem}
	if again {
		headers["Retry-After"] = headerRetry
	}
	response := map[string]any{
		"description": "Idempotency: " + strings.Join(titles, ", ") + ".", "headers": headerRefs(headers),
	}
	if m.cfg.RenderProblem == nil {
		response["content"] = map[string]any{problemType: map[string]any{"schema": map[string]any{"allOf": []any{
			map[string]any{"$ref": "#/components/schemas/" + problemSchema},
			map[string]any{"type": "object", "properties": map[string]any{
				"code": map[string]any{"enum": enum}, "status": map[string]any{"enum": []any{status}},
			}},
		}}}}
	}
	return response
}

// problemSchemaOf is the schema of [Problem.MarshalJSON].
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

// openAPIHeaders describes the headers of the answers.
func (m *Module) openAPIHeaders() map[string]any {
	header := func(schema map[string]any, description string) map[string]any {
		return map[string]any{"schema": schema, "description": description}
	}
	return map[string]any{
		headerEcho: header(map[string]any{"type": "string"}, "The key, as it was sent."),
		headerResult: header(map[string]any{"type": "string",
			"enum": []any{ResultCreated, ResultReused, ResultUnknown, ResultNotApplied}},
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
