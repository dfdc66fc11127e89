package command

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxJSONDepth is how deeply JSON may be nested to be sorted. Deeper bodies are compared byte for byte. The limit bounds
// the work, since an object is copied once for each object around it. It is part of version 1 of the command hash.
const maxJSONDepth = 128

// canonicalJSON brings a JSON text into the one form that all JSON texts of the same meaning share (contract H-2): no
// white space, strings in their shortest spelling, members sorted by name. Numbers keep every digit. Members of the same
// name keep their order, because some parsers take the first of them and some the last. Two names that differ only in
// case count as the same name, as in encoding/json (H-6).
//
// It reads the text once, checks the grammar of RFC 8259 while it reads, and sorts the members of an object when the
// object ends. The options of package jsontext are no substitute: CanonicalizeRawInts changes numbers, and
// ReorderRawObjects sorts members of the same name by their values, so that {"a":1,"a":2} and {"a":2,"a":1} become one.
//
// Each method below reads what its name says, and returns false if the text has something else there.
type canonicalJSON struct {
	text []byte
	next int // the position in text that is read next
	form []byte
	from int // text[from:next] belongs to the form as it is, and is appended by keep

	members []jsonMember // of the objects that are open
	folded  []byte       // the names of the object that is sorted, without their case
	spare   []byte
}

// jsonMember has the positions of a member in the form, from its quoted name to the end of its value. While its object is
// read, to is that of its colon; while it is sorted, its name is folded[from:to]. Of a body of 1 MiB there may be 200,000.
type jsonMember struct{ start, end, from, to uint32 }

// leastMember is the length of the shortest member with its comma: "":0,
const leastMember = 5

// of returns the canonical form of text, which is valid until the next call. ok is false if text is not JSON in valid
// Unicode (RFC 8259, section 8.1), or is nested too deeply, or has 4 GiB.
func (c *canonicalJSON) of(text []byte) (form []byte, ok bool) {
	if uint64(len(text)) > math.MaxUint32 {
		return nil, false
	}
	c.text, c.next, c.form, c.from, c.members = text, 0, slices.Grow(c.form[:0], len(text)), 0, c.members[:0]
	ok = c.value(0) && c.peek() == 0 && c.next == len(text)
	c.keep()
	c.text = nil
	return c.form, ok
}

// keep appends to the form what was read since the last call.
func (c *canonicalJSON) keep() {
	c.form = append(c.form, c.text[c.from:c.next]...)
	c.from = c.next
}

// offset is the position in the form of what is read next. The form is not longer than the text.
func (c *canonicalJSON) offset() uint32 {
	return uint32(len(c.form) + c.next - c.from) //nolint:gosec // of limits the length
}

// peek returns the next byte that is not white space, without reading it. It returns 0 at the end of the text, and for a
// zero byte, which is not JSON.
func (c *canonicalJSON) peek() byte {
	if c.next < len(c.text) && c.text[c.next] > ' ' {
		return c.text[c.next]
	}
	return c.peekBehindSpace()
}

func (c *canonicalJSON) peekBehindSpace() (b byte) {
	c.keep()
	for ; c.next < len(c.text); c.next++ {
		if b = c.text[c.next]; b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			break
		}
		b = 0
	}
	c.from = c.next
	return b
}

func (c *canonicalJSON) punctuation(b byte) bool {
	if c.peek() != b {
		return false
	}
	c.next++
	return true
}

// value reads a value that is inside of depth objects and arrays.
func (c *canonicalJSON) value(depth int) bool {
	switch c.peek() {
	case '"':
		return c.string()
	case '{':
		return depth < maxJSONDepth && c.object(depth+1)
	case '[':
		return depth < maxJSONDepth && c.array(depth+1)
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case 'n':
		return c.literal("null")
	}
	return c.number()
}

func (c *canonicalJSON) object(depth int) bool {
	c.punctuation('{')
	if c.punctuation('}') {
		return true
	}
	first := len(c.members)
	for {
		if c.peek() != '"' {
			return false
		}
		m := jsonMember{start: c.offset()}
		if !c.string() || c.peek() != ':' {
			return false
		}
		m.to = c.offset()
		c.next++
		if !c.value(depth) {
			return false
		}
		comma := c.peek() == ','
		m.end = c.offset()
		c.reserve()
		c.members = append(c.members, m)
		if !comma {
			c.sort(c.members[first:])
			c.members = c.members[:first]
			return c.punctuation('}')
		}
		c.next++
	}
}

// reserve makes room for one more member. Where there are many, it makes room for all that the rest of the text can have, at
// once: growing again and again would cost several times the memory (H-9).
func (c *canonicalJSON) reserve() {
	if n := len(c.members); n >= 1<<10 && n == cap(c.members) {
		rest := c.text[c.next:]
		c.members = slices.Grow(c.members, 1+min(len(rest)/leastMember, bytes.Count(rest, []byte(":"))))
	}
}

func (c *canonicalJSON) array(depth int) bool {
	c.punctuation('[')
	if c.punctuation(']') {
		return true
	}
	for {
		if !c.value(depth) {
			return false
		}
		if !c.punctuation(',') {
			return c.punctuation(']')
		}
	}
}

func (c *canonicalJSON) literal(word string) bool {
	if !bytes.HasPrefix(c.text[c.next:], []byte(word)) {
		return false
	}
	c.next += len(word)
	return true
}

// number reads a number, which keeps its digits. The caller checks what follows it.
func (c *canonicalJSON) number() bool {
	c.either('-', '-')
	if !c.either('0', '0') && !c.digits() {
		return false
	}
	if c.either('.', '.') && !c.digits() {
		return false
	}
	if c.either('e', 'E') {
		c.either('+', '-')
		return c.digits()
	}
	return true
}

// either reads one byte, a or b.
func (c *canonicalJSON) either(a, b byte) bool {
	if c.next == len(c.text) || c.text[c.next] != a && c.text[c.next] != b {
		return false
	}
	c.next++
	return true
}

// digits reads one digit or more.
func (c *canonicalJSON) digits() bool {
	start := c.next
	for c.next < len(c.text) && '0' <= c.text[c.next] && c.text[c.next] <= '9' {
		c.next++
	}
	return c.next > start
}

// string reads a string. A string without a backslash has its shortest spelling already.
func (c *canonicalJSON) string() bool {
	start, escaped, ascii := c.next, false, true
	for i := start + 1; i < len(c.text); i++ {
		switch b := c.text[i]; {
		case b > '"' && b < utf8.RuneSelf && b != '\\':
		case b == '"':
			if escaped {
				return c.respell(i + 1)
			}
			c.next = i + 1
			return ascii || utf8.Valid(c.text[start:c.next])
		case b == '\\':
			escaped = true
			i++ // a quote behind it does not end the string
		case b < ' ':
			return false
		case b >= utf8.RuneSelf:
			ascii = false
		}
	}
	return false
}

// respell appends the string that ends before end in its shortest spelling.
func (c *canonicalJSON) respell(end int) bool {
	c.keep()
	plain, err := jsontext.AppendUnquote(c.spare[:0], c.text[c.next:end])
	c.spare = plain
	if err != nil {
		return false
	}
	c.form, err = jsontext.AppendQuote(c.form, plain)
	c.next, c.from = end, end
	return err == nil
}

// sort sorts the members of one object in place. Each name is folded once, because folding letters outside ASCII is slow
// (H-9).
func (c *canonicalJSON) sort(members []jsonMember) {
	c.keep()
	if len(members) == 1 {
		return
	}
	names := 0 // their bytes; folding a name makes it no longer
	for _, m := range members {
		names += int(m.to - m.start)
	}
	c.folded = slices.Grow(c.folded[:0], names)
	for i := range members {
		m := &members[i]
		m.from = uint32(len(c.folded)) //nolint:gosec // as offset
		c.folded = appendFolded(c.folded, c.form[m.start:m.to])
		m.to = uint32(len(c.folded)) //nolint:gosec // as offset
	}
	byName := func(a, b jsonMember) int {
		if order := bytes.Compare(c.folded[a.from:a.to], c.folded[b.from:b.to]); order != 0 {
			return order
		}
		return cmp.Compare(a.start, b.start) // members of the same name keep their order
	}
	if slices.IsSortedFunc(members, byName) {
		return
	}
	start := members[0].start
	slices.SortFunc(members, byName)
	sorted := slices.Grow(c.spare[:0], len(c.form)-int(start))
	for i, m := range members {
		if i > 0 {
			sorted = append(sorted, ',')
		}
		sorted = append(sorted, c.form[m.start:m.end]...)
	}
	copy(c.form[start:], sorted)
	c.spare = sorted
}

// appendFolded appends a name without its case: "amount", "Amount" and "AMOUNT" are equal.
func appendFolded(dst, name []byte) []byte {
	folded := len(dst)
	dst = append(dst, name...)
	for i, c := range name {
		if c >= utf8.RuneSelf {
			return appendFoldedRunes(dst[:folded+i], name[i:])
		}
		if 'a' <= c && c <= 'z' {
			dst[folded+i] = c - ('a' - 'A')
		}
	}
	return dst
}

func appendFoldedRunes(dst, name []byte) []byte {
	for len(name) > 0 {
		r, length := utf8.DecodeRune(name)
		dst = utf8.AppendRune(dst, foldedRune(r))
		name = name[length:]
	}
	return dst
}

// foldedRune returns the smallest rune that is equal to r under case folding.
func foldedRune(r rune) rune {
	for next := unicode.SimpleFold(r); ; next = unicode.SimpleFold(next) {
		if next <= r {
			return next
		}
		r = next
	}
}
