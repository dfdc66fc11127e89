package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MergeOpenAPI adds [Module.OpenAPI] to the app's own OpenAPI 3 document, which encoding/json has decoded into doc: to
// each operation that doc has for a guarded route, the key's header, the problems, and the headers of answers. What the
// app has written stays: if the operation has an answer of a status already, the problems of this status become one more
// possible body of it. Paths are compared without the names of their parameters. If a path begins with the path of one of
// doc's servers ("servers"), it is compared without that, too. A second merge changes nothing.
//
// It adds no operation. missing lists, sorted, the guarded routes for which doc has no operation, as "POST
// /v1/payments/{id}". Such a route may not be part of the public API, or doc may spell it in another way.
//
// Errors: doc is not OpenAPI 3 (convert Swagger 2.0 first); doc is not decoded JSON; doc already has a different
// component with a name that it would add. After an error, a part of doc may be changed.
func (m *Module) MergeOpenAPI(doc map[string]any) (missing []string, err error) {
	if version, _ := doc["openapi"].(string); !strings.HasPrefix(version, "3.") {
		return nil, errors.New("idem: MergeOpenAPI: the document has no \"openapi\": \"3.x\"; convert Swagger 2.0 first, with " +
			"openapi2conv of kin-openapi for instance")
	}
	part := m.OpenAPI()
	merge := merge{doc: doc}
	for path, item := range part["paths"].(map[string]any) {
		for method, operation := range item.(map[string]any) {
			if theirs := merge.operation(path, method); theirs != nil {
				merge.into(theirs, operation.(map[string]any))
			} else {
				missing = append(missing, strings.ToUpper(method)+" "+path)
			}
		}
	}
	merge.components(part["components"].(map[string]any))
	const fern = "x-fern-idempotency-headers"
	if doc[fern] == nil {
		doc[fern] = part[fern]
	}
	if len(merge.errs) > 0 {
		return nil, fmt.Errorf("idem: MergeOpenAPI: %w", errors.Join(merge.errs...))
	}
	slices.Sort(missing)
	return missing, nil
}

// merge is the work on one document.
type merge struct {
	doc  map[string]any
	errs []error
}

// object returns a member that has to be an object, and adds it if it is missing.
func (d *merge) object(in map[string]any, name string) map[string]any {
	switch member := in[name].(type) {
	case map[string]any:
		return member
	case nil:
		in[name] = map[string]any{}
		return in[name].(map[string]any)
	default:
		d.errs = append(d.errs, fmt.Errorf("%q is %T, and not map[string]any as encoding/json decodes it", name, member))
		return map[string]any{}
	}
}

// operation finds the operation of a route in the document; nil if it has none.
func (d *merge) operation(path, method string) map[string]any {
	paths := d.object(d.doc, "paths")
	spellings := []string{path}
	for _, base := range d.basePaths() {
		if rest, ok := strings.CutPrefix(path, base); ok && strings.HasPrefix(rest, "/") {
			spellings = append(spellings, rest)
		}
	}
	for _, spelling := range spellings {
		if operation := operationAt(paths, spelling, method); operation != nil {
			return operation
		}
		for _, theirs := range slices.Sorted(maps.Keys(paths)) {
			if nameless(theirs) == nameless(spelling) {
				if operation := operationAt(paths, theirs, method); operation != nil {
					return operation
				}
			}
		}
	}
	return nil
}

func operationAt(paths map[string]any, path, method string) map[string]any {
	item, _ := paths[path].(map[string]any)
	operation, _ := item[method].(map[string]any)
	return operation
}

// basePaths are the paths of the document's servers.
func (d *merge) basePaths() (bases []string) {
	servers, _ := d.doc["servers"].([]any)
	for _, server := range servers {
		object, _ := server.(map[string]any)
		address, _ := object["url"].(string)
		if _, rest, ok := strings.Cut(address, "://"); ok {
			_, rest, _ = strings.Cut(rest, "/")
			address = "/" + rest
		}
		if base := strings.TrimRight(address, "/"); base != "" {
			bases = append(bases, base)
		}
	}
	return bases
}

// into adds the answers and the header of the guards to an operation of the document.
func (d *merge) into(theirs, ours map[string]any) {
	d.parameter(theirs, ours["parameters"].([]any))
	responses, added := d.object(theirs, "responses"), ours["responses"].(map[string]any)
	const success = "2XX"
	headers := added[success].(map[string]any)["headers"].(map[string]any)
	succeeds := false
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		succeeds = succeeds || strings.HasPrefix(status, "2")
		if ours, ok := added[status]; ok && sameJSON(responses[status], ours) { // merged before
			continue
		}
		response := d.response(responses, status)
		for name, header := range headers {
			d.absent(d.object(response, "headers"), name, header)
		}
	}
	for _, status := range slices.Sorted(maps.Keys(added)) {
		switch {
		case status == success && succeeds:
		case responses[status] == nil, sameJSON(responses[status], added[status]):
			responses[status] = added[status]
		default:
			d.problems(d.response(responses, status), added[status].(map[string]any))
		}
	}
	const fern = "x-fern-idempotent"
	d.absent(theirs, fern, ours[fern])
}

// absent adds a member if it is missing. It ignores the case of names, because headers have no case.
func (d *merge) absent(to map[string]any, name string, value any) {
	for theirs := range to {
		if strings.EqualFold(theirs, name) {
			return
		}
	}
	to[name] = value
}

// parameter adds the key's header, the last parameter of ours, unless the operation has it.
func (d *merge) parameter(theirs map[string]any, ours []any) {
	key := ours[len(ours)-1].(map[string]any)
	parameters, _ := theirs["parameters"].([]any)
	for _, parameter := range parameters {
		p, _ := d.resolve(parameter).(map[string]any)
		name, _ := p["name"].(string)
		if p["in"] == "header" && strings.EqualFold(name, key["name"].(string)) {
			return
		}
	}
	theirs["parameters"] = append(slices.Clip(parameters), key)
}

// response returns an answer of an operation, which the caller may change. If other operations share the answer, it
// returns a copy for this operation.
func (d *merge) response(responses map[string]any, status string) map[string]any {
	shared, _ := responses[status].(map[string]any)
	if _, refers := shared["$ref"]; !refers {
		return d.object(responses, status)
	}
	target, ok := d.resolve(shared).(map[string]any)
	if !ok {
		d.errs = append(d.errs, fmt.Errorf("the answer %s refers to %v, which is not in the document", status, shared["$ref"]))
		return map[string]any{}
	}
	own := maps.Clone(target)
	for _, name := range []string{"headers", "content"} {
		if members, ok := own[name].(map[string]any); ok {
			own[name] = maps.Clone(members)
		}
	}
	responses[status] = own
	return own
}

// problems adds the problems of a status to an answer that the app has described.
func (d *merge) problems(theirs, ours map[string]any) {
	description, _ := theirs["description"].(string)
	if added := ours["description"].(string); !strings.Contains(description, added) {
		theirs["description"] = strings.TrimSpace(description + "\n\n" + added)
	}
	for name, header := range ours["headers"].(map[string]any) {
		d.absent(d.object(theirs, "headers"), name, header)
	}
	ourContent, ok := ours["content"].(map[string]any)
	if !ok {
		return
	}
	content := d.object(theirs, "content")
	body := ourContent[problemType].(map[string]any)
	own, _ := content[problemType].(map[string]any)
	schema, _ := own["schema"].(map[string]any)
	switch {
	case schema == nil:
		content[problemType] = body
	case !hasSchema(schema, body["schema"]):
		either := maps.Clone(own)
		either["schema"] = map[string]any{"anyOf": []any{schema, body["schema"]}}
		content[problemType] = either
	}
}

// hasSchema reports whether schema is ours, or has ours as one of several.
func hasSchema(schema map[string]any, ours any) bool {
	either, _ := schema["anyOf"].([]any)
	return sameJSON(schema, ours) || slices.ContainsFunc(either, func(s any) bool { return sameJSON(s, ours) })
}

// components adds the components that the operations refer to.
func (d *merge) components(ours map[string]any) {
	components := d.object(d.doc, "components")
	for kind, members := range ours {
		theirs := d.object(components, kind)
		for name, component := range members.(map[string]any) {
			if there, ok := theirs[name]; ok && !sameJSON(there, component) {
				d.errs = append(d.errs, fmt.Errorf("components.%s.%s is another one; rename the app's", kind, name))
			}
			theirs[name] = component
		}
	}
}

// resolve follows a reference within the document.
func (d *merge) resolve(v any) any {
	for range 10 { // a limit, in case the references form a circle
		object, _ := v.(map[string]any)
		ref, ok := object["$ref"].(string)
		if !ok {
			return v
		}
		pointer, ok := strings.CutPrefix(ref, "#/")
		if !ok {
			return nil
		}
		v = d.doc
		for name := range strings.SplitSeq(pointer, "/") {
			object, _ := v.(map[string]any)
			v = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
		}
	}
	return nil
}

// sameJSON reports whether two values are the same JSON. It compares their encoding, because decoded numbers have another
// type.
func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
