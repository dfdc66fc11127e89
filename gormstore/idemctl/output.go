package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// plain escapes what could act on a terminal: control characters, and those that turn the direction of text.
func plain(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			b.WriteRune(r)
		} else {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// line is plain, on one line.
func line(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(plain(text))
}

// member is one member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

func quoted(name, text string) member { return member{name, json.RawMessage(strconv.Quote(text))} }

// object is a JSON object in its order.
type object []member

// UnmarshalJSON implements [json.Unmarshaler].
func (o *object) UnmarshalJSON(text []byte) error {
	*o = object{}
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("want a JSON object: %w", err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		m := member{name: name.(string)} // the decoder takes nothing else there
		if err := d.Decode(&m.value); err != nil {
			return err
		}
		*o = append(*o, m)
	}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// text is a member as text: a string without its quotes, anything else as JSON.
func (o object) text(name string) string {
	for _, m := range o {
		if m.name == name {
			return valueText(m.value)
		}
	}
	return ""
}

func valueText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return line(text)
	}
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return line(string(value))
	}
	return line(compact.String())
}

// print prints what the app has answered: one object for people, or anything as JSON for programs.
func (c *tool) print(answer []byte) error {
	if c.output == "json" {
		return c.printJSON(json.RawMessage(answer))
	}
	var o object
	if json.Unmarshal(answer, &o) != nil {
		return fail(failed, "the app's answer is no JSON object: is --url the address of its API?")
	}
	o.write(c.out, "")
	return nil
}

func (o object) write(w io.Writer, indent string) {
	for _, m := range o {
		var inner object
		if json.Unmarshal(m.value, &inner) == nil && len(inner) > 0 {
			_, _ = fmt.Fprintf(w, "%s%s:\n", indent, line(m.name))
			inner.write(w, indent+"  ")
			continue
		}
		_, _ = fmt.Fprintf(w, "%s%s: %s\n", indent, line(m.name), valueText(m.value))
	}
}

func (c *tool) printJSON(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fail(failed, "the answer is no JSON: is --url the address of the app's API?")
	}
	_, err = fmt.Fprintf(c.out, "%s\n", text)
	return err
}

// table prints members of objects in columns.
func (c *tool) table(rows []object, columns ...string) {
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, strings.ToUpper(strings.Join(columns, "\t")))
	for _, row := range rows {
		cells := make([]string, len(columns))
		for i, column := range columns {
			cells[i] = row.text(column)
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush()
}
