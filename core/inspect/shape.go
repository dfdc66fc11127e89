package inspect

import (
	"bytes"
	"cmp"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/auth19/idem/core/store"
)

// example is the form of an answer that the route has given to somebody, without what it says.
type example struct {
	Status int
	Text   string  // the name of the status
	Header []quote // the value of Content-Type, and only the names of the others
	Body   string  // "": it had none
}

// exampleOf is nil if there is no answer. own says that it is an answer to the caller whose operation is settled: the names
// of members may be data, such as accounts, and another caller's are not shown.
func exampleOf(a store.Answer, own bool) *example {
	if a.Status == 0 {
		return nil
	}
	e := &example{Status: a.Status, Text: http.StatusText(a.Status)}
	for name := range a.Header {
		q := quote{name, "…"}
		if name == "Content-Type" {
			q.Text, _, _ = mime.ParseMediaType(a.Header.Get(name))
		}
		e.Header = append(e.Header, q)
	}
	slices.SortFunc(e.Header, func(x, y quote) int { return cmp.Compare(x.Name, y.Name) })
	if len(a.Body) > 0 {
		if shape, ok := shapeOf(a.Body); ok && own {
			e.Body = shape
		} else {
			e.Body = "…"
		}
	}
	return e
}

// maxShape is the greatest body whose form is shown, and the greatest form.
const maxShape = 8 << 10

// shapeOf writes JSON without its values: "…" for every text, 0 for every number, false for every truth value, and the first
// element of an array. ok is false for what is no JSON.
func shapeOf(body []byte) (shape string, ok bool) {
	in := jsontext.NewDecoder(bytes.NewReader(body[:min(len(body), maxShape)]))
	var out bytes.Buffer
	enc := jsontext.NewEncoder(&out, jsontext.WithIndent("  "))
	for {
		if kind, n := in.StackIndex(in.StackDepth()); kind == '[' && n > 0 && in.PeekKind() != ']' {
			if in.SkipValue() != nil {
				return "", false
			}
			continue
		}
		token, err := in.ReadToken()
		if err == io.EOF { //nolint:errorlint // it is returned as it is
			return strings.TrimSpace(out.String()), out.Len() > 0
		}
		if err != nil {
			return "", false
		}
		kind, n := in.StackIndex(in.StackDepth())
		isName := kind == '{' && n%2 == 1
		switch token.Kind() {
		case '"':
			if !isName {
				token = jsontext.String("…")
			}
		case '0':
			token = jsontext.Int(0)
		case 't', 'f':
			token = jsontext.False
		}
		if enc.WriteToken(token) != nil {
			return "", false
		}
	}
}
