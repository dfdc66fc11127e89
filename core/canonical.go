package core

import (
	"bytes"
	"cmp"
	"io"
	"mime/multipart"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// canonicalJSON returns body in the one form that all JSON texts of the same meaning share (contract H-2): no white
// space, strings in their shortest spelling, members sorted by name. Numbers keep every digit, and members of the same
// name their order, since parsers differ in which of them they believe. Names are the same where they are under case
// folding, as encoding/json takes them (H-6). It is not ok where body is no JSON text of valid Unicode (RFC 8259, section
// 8.1), or is nested too deep. It is valid until the workspace is used again.
func (w *workspace) canonicalJSON(body []byte) (canonical []byte, ok bool) {
	canonical, err := jsontext.AppendFormat(slices.Grow(w.canonical[:0], len(body)), body, jsontext.AllowDuplicateNames(true))
	w.canonical = canonical
	if err != nil || !w.sortMembers(canonical) {
		return nil, false
	}
	return canonical, true
}

// maxJSONDepth is how deep JSON may be nested to be sorted; deeper bodies are compared as they came. The limit bounds
// the work, since an object is copied once for each object around it, and is part of version 1 of the command hash.
const maxJSONDepth = 128

// jsonContainer is an object or array that is open, and where in it the scan is.
type jsonContainer struct {
	object       bool
	members      int // how many members of outer objects were collected when it opened
	start, colon int // of the current member
}

// jsonMember is a member of an object: its quoted name, a colon, its value.
type jsonMember struct{ start, colon, end int }

// sortMembers sorts the members of all objects by name, in place, inner objects first. json is valid and without white
// space. It is not ok where json is nested too deep. The option ReorderRawObjects of jsontext is no substitute: it
// sorts members of the same name by their values, so that {"a":1,"a":2} and {"a":2,"a":1} become one.
func (w *workspace) sortMembers(json []byte) (ok bool) {
	open := make([]jsonContainer, 1, 16) // the first stands for what is around the whole text
	members := make([]jsonMember, 0, 16)

	for i := 0; i < len(json); i++ {
		top := &open[len(open)-1]
		switch c := json[i]; {
		case c == '"':
			i = stringEnd(json, i)
		case c == '{' || c == '[':
			if len(open) > maxJSONDepth {
				return false
			}
			open = append(open, jsonContainer{object: c == '{', members: len(members), start: i + 1})
		case c == ':':
			top.colon = i
		case c == ',' && top.object:
			members = append(members, jsonMember{top.start, top.colon, i})
			top.start = i + 1
		case c == '}':
			if i > top.start { // not the empty object
				members = append(members, jsonMember{top.start, top.colon, i})
			}
			w.reorder(json, members[top.members:])
			members = members[:top.members]
			open = open[:len(open)-1]
		case c == ']':
			open = open[:len(open)-1]
		}
	}
	return true
}

// stringEnd returns the offset of the quote that closes the string opened at i.
func stringEnd(json []byte, i int) int {
	for i++; json[i] != '"'; i++ {
		if json[i] == '\\' {
			i++
		}
	}
	return i
}

// reorder sorts the members of one object in place.
func (w *workspace) reorder(json []byte, members []jsonMember) {
	byName := func(a, b jsonMember) int {
		// The offset keeps members of the same name in their order.
		return cmp.Or(compareFolded(json[a.start:a.colon], json[b.start:b.colon]), a.start-b.start)
	}
	if slices.IsSortedFunc(members, byName) {
		return
	}
	start, end := members[0].start, members[len(members)-1].end
	sorted := slices.Grow(w.spare[:0], end-start)
	slices.SortFunc(members, byName)
	for i, m := range members {
		if i > 0 {
			sorted = append(sorted, ',')
		}
		sorted = append(sorted, json[m.start:m.end]...)
	}
	copy(json[start:], sorted)
	w.spare = sorted
}

// compareFolded compares two names by what case folding makes of them: "amount", "Amount" and "AMOUNT" are one.
func compareFolded(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		switch {
		case x|y >= utf8.RuneSelf:
			return compareFoldedRunes(a[i:], b[i:])
		case x != y && foldedASCII(x) != foldedASCII(y):
			return cmp.Compare(foldedASCII(x), foldedASCII(y))
		}
	}
	return cmp.Compare(len(a), len(b))
}

func compareFoldedRunes(a, b []byte) int {
	for len(a) > 0 && len(b) > 0 {
		first, m := foldedRune(a)
		second, n := foldedRune(b)
		if first != second {
			return cmp.Compare(first, second)
		}
		a, b = a[m:], b[n:]
	}
	return cmp.Compare(len(a), len(b))
}

func foldedASCII(c byte) byte {
	if 'a' <= c && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}

// foldedRune decodes the first rune of name, as the least of all that case folding makes one with it, and its length.
func foldedRune(name []byte) (r rune, length int) {
	if c := name[0]; c < utf8.RuneSelf {
		return rune(foldedASCII(c)), 1
	}
	r, length = utf8.DecodeRune(name)
	for next := unicode.SimpleFold(r); ; next = unicode.SimpleFold(next) {
		if next <= r {
			return next, length
		}
		r = next
	}
}

// The caps of a multipart body, which bound what a small body can cost. Those of net/http are the same or wider.
const (
	maxParts       = 1_000    // parts
	maxPartHeaders = 10_000   // header lines of all parts
	maxPartHeader  = 64 << 10 // bytes of header of one part
)

// partsAbove reports whether a body is a multipart form above its caps (H-6). It counts, and parses nothing.
func partsAbove(contentType string, body []byte) bool {
	if prefix := "multipart/"; len(contentType) < len(prefix) || !strings.EqualFold(contentType[:len(prefix)], prefix) {
		return false
	}
	mediaType, parameters := parseMediaType(contentType)
	if mediaType != "multipart/form-data" {
		return false
	}
	delimiter := []byte("\n--" + parameters["boundary"])
	rest, found := bytes.CutPrefix(bytes.TrimLeft(body, "\r\n"), delimiter[1:])
	lines := 0
	for parts := 0; found; parts++ { // what is behind the last part counts, too
		var part []byte
		part, rest, found = bytes.Cut(rest, delimiter)
		n, size := partHeader(part)
		if lines += n; parts > maxParts || lines > maxPartHeaders || size > maxPartHeader {
			return true
		}
	}
	return false
}

// partHeader returns the number of header lines of a part and their size; part begins behind its boundary.
func partHeader(part []byte) (lines, size int) {
	for first := true; ; first = false {
		line, rest, found := bytes.Cut(part, []byte("\n"))
		if !found || !first && len(bytes.TrimRight(line, "\r")) == 0 || size > maxPartHeader {
			return lines, size
		}
		if !first {
			lines++
		}
		size += len(line)
		part = rest
	}
}

// canonicalMultipart returns the parts of a multipart body without what is between them: of each part its header
// lines, sorted by name, and its content, neither of them decoded (contract H-3). It is not ok where body cannot be
// parsed, or does not begin with its first boundary and end with its last: the parser of the standard library skips
// what is before and behind them, and takes a body that breaks off in a part's header for complete.
func canonicalMultipart(body []byte, boundary string) (canonical []byte, ok bool) {
	framed := bytes.Trim(body, "\r\n")
	inner, closed := bytes.CutSuffix(framed, []byte("--"+boundary+"--"))
	if !closed || !bytes.HasPrefix(framed, []byte("--"+boundary)) || len(inner) > 0 && inner[len(inner)-1] != '\n' {
		return nil, false
	}
	canonical = make([]byte, 0, len(body))
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF { //nolint:errorlint // not errors.Is: a body that breaks off wraps io.EOF
			return canonical, true
		}
		if err != nil {
			return nil, false
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, false
		}
		canonical = appendCount(canonical, len(part.Header))
		for _, name := range sortedKeys(part.Header) {
			canonical = appendField(canonical, name)
			canonical = appendFields(canonical, part.Header[name])
		}
		canonical = appendField(canonical, content)
	}
}
