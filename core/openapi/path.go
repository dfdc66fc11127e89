package openapi

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pathOf writes the pattern of a router as OpenAPI does, and returns the names of its parameters: ":id" and "*path" of
// Gin and Echo, "{id}", "{path...}" and "{$}" of ServeMux, "{id:[0-9]+}" of chi. In a pattern with braces a colon outside
// of them is only a colon.
func pathOf(pattern string) (path string, parameters []string) {
	var b strings.Builder
	braces := strings.Contains(pattern, "{")
	for rest := pattern; rest != ""; {
		var name string
		after := rest[1:]
		switch c := rest[0]; {
		case strings.HasPrefix(rest, `\:`): // Gin and Echo: a colon
			b.WriteByte(':')
			rest = rest[2:]
			continue
		case c == '{':
			name, after = cutBrace(after)
			name, _, _ = strings.Cut(name, ":")
			name = strings.TrimSuffix(name, "...")
		case c == '*', c == ':' && !braces:
			end := strings.IndexByte(rest, '/')
			if end < 0 {
				end = len(rest)
			}
			name, after = cmp.Or(rest[1:end], "path"), rest[end:]
		default:
			b.WriteByte(c)
			rest = after
			continue
		}
		rest = after
		if name == "$" { // ServeMux: the end of the path
			continue
		}
		for slices.Contains(parameters, name) {
			name += "_"
		}
		b.WriteString("{" + name + "}")
		parameters = append(parameters, name)
	}
	return b.String(), parameters
}

// cutBrace cuts what follows "{" at its "}". An expression of chi may have braces of its own.
func cutBrace(s string) (inside, rest string) {
	depth := 1
	for i, c := range s {
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

var pathParameter = regexp.MustCompile(`\{[^}]*\}`)

// nameless is a path of OpenAPI without the names of its parameters: "/v1/payments/{}".
func nameless(path string) string { return pathParameter.ReplaceAllString(path, "{}") }

// inWords is a duration for readers: "72 hours", "90 minutes".
func inWords(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if d < unit.length || d%unit.length != 0 {
			continue
		}
		n := int64(d / unit.length)
		if n == 1 {
			return "1 " + unit.name
		}
		return strconv.FormatInt(n, 10) + " " + unit.name + "s"
	}
	return d.String()
}
