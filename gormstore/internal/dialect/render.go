package dialect

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
)

//go:embed statements
var common embed.FS

// Render returns the statements of a dialect, each whole, with the schema as it stands in a statement.
//
// A file has statements, which begin with "-- name: x", and macros, which begin with "-- macro: x"; comments follow. Where
// :x stands in a text, the macro x comes instead. :x(text) is a macro that has :it in it, where the text comes instead. The
// schema is written as psql writes it, :"schema". That is all.
func Render(d *Dialect, schema string) (map[Statement]string, error) {
	r := renderer{"name": {}, "macro": {`"schema"`: schema}}
	for _, files := range append([]fs.FS{common}, d.Statements...) {
		if err := r.read(files); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	rendered := make(map[Statement]string, len(r["name"]))
	for name, text := range r["name"] {
		text, err := r.expand(text, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", d.Name, name, err)
		}
		rendered[Statement(name)] = d.Finish(Statement(name), text)
	}
	return rendered, nil
}

// renderer has the texts by kind and name.
type renderer map[string]map[string]string

var (
	head     = regexp.MustCompile(`(?m)^-- (name|macro): (\w+)\n`)
	macroUse = regexp.MustCompile(`::|:([a-z_]+|"schema")`) // of a macro; a cast is none
)

// read adds the statements and macros of files. They replace those of the same name.
func (r renderer) read(files fs.FS) error {
	names, err := fs.Glob(files, "statements/*.sql")
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, file := range names {
		content, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		text := string(content)
		heads := head.FindAllStringSubmatchIndex(text, -1)
		for i, at := range heads {
			end := len(text)
			if i+1 < len(heads) {
				end = heads[i+1][0]
			}
			kind, name := text[at[2]:at[3]], text[at[4]:at[5]]
			if seen[kind+name] {
				return fmt.Errorf("%s: there are two of the %s %q", file, kind, name)
			}
			seen[kind+name] = true
			r[kind][name] = withoutComments(text[at[1]:end])
		}
	}
	return nil
}

// withoutComments returns a text without the comments before it, and without the semicolon at its end.
func withoutComments(text string) string {
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.TrimSuffix(strings.TrimSpace(text), ";")
}

const maxDepth = 8 // of macros in macros

// expand puts the macros in the places of a text.
func (r renderer) expand(text string, depth int) (string, error) {
	if depth > maxDepth {
		return "", errors.New("macros that go round")
	}
	var out strings.Builder
	for {
		at := macroUse.FindStringSubmatchIndex(text)
		if at == nil || at[2] < 0 { // none, or a cast
			end := len(text)
			if at != nil {
				end = at[1]
			}
			out.WriteString(text[:end])
			if text = text[end:]; text == "" {
				return out.String(), nil
			}
			continue
		}
		name := text[at[2]:at[3]]
		macro, known := r["macro"][name]
		if !known {
			return "", fmt.Errorf("there is no macro :%s", name)
		}
		out.WriteString(text[:at[0]])
		text = text[at[3]:]
		if strings.Contains(macro, ":it") {
			end := closing(text)
			if end < 0 {
				return "", fmt.Errorf(":%s needs a text in parentheses", name)
			}
			macro = strings.ReplaceAll(macro, ":it", text[1:end])
			text = text[end+1:]
		}
		expanded, err := r.expand(macro, depth+1)
		if err != nil {
			return "", err
		}
		out.WriteString(expanded)
	}
}

// closing is where the parenthesis closes that a text begins with; -1: it does not.
func closing(text string) int {
	depth := 0
	for i, c := range text {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			if i == 0 {
				break
			}
			return i
		}
	}
	return -1
}

var parameter = regexp.MustCompile(`[$?](\d+)`)

// Parameters is how many parameters a statement has.
func Parameters(text string) (n int) {
	for _, found := range parameter.FindAllStringSubmatch(text, -1) {
		number, _ := strconv.Atoi(found[1])
		n = max(n, number)
	}
	return n
}
