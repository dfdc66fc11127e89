package command

import (
	"bytes"
	"io"
	"mime/multipart"
	"strings"
)

// The caps of a multipart body. They bound how much work a small body can cause. The caps of net/http are the same or
// higher.
const (
	MaxParts       = 1_000    // parts
	MaxPartHeaders = 10_000   // header lines of all parts
	MaxPartHeader  = 64 << 10 // bytes in the headers of one part
)

// PartsAbove reports whether a body is a multipart form above its caps (H-6). It counts, and parses nothing.
func PartsAbove(contentType string, body []byte) bool {
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
		if lines += n; parts > MaxParts || lines > MaxPartHeaders || size > MaxPartHeader {
			return true
		}
	}
	return false
}

// partHeader returns the number of header lines of a part and their size; part begins behind its boundary.
func partHeader(part []byte) (lines, size int) {
	for first := true; ; first = false {
		line, rest, found := bytes.Cut(part, []byte("\n"))
		if !found || !first && len(bytes.TrimRight(line, "\r")) == 0 || size > MaxPartHeader {
			return lines, size
		}
		if !first {
			lines++
		}
		size += len(line)
		part = rest
	}
}

// canonicalMultipart returns the parts of a multipart body without the boundaries between them. Of each part it returns
// the header lines, sorted by name, and the content; neither is decoded (contract H-3). ok is false if body cannot be
// parsed, or does not begin with its first boundary and end with its last, the only one that closes it. This must be
// checked here, because the parser of the standard library skips what is before and after the boundaries, stops at the
// first line that closes, and accepts a body that breaks off in a part's header.
func canonicalMultipart(body []byte, boundary string) (canonical []byte, ok bool) {
	framed, last := bytes.Trim(body, "\r\n"), []byte("--"+boundary+"--")
	inner, closed := bytes.CutSuffix(framed, last)
	if !closed || !bytes.HasPrefix(framed, []byte("--"+boundary)) || len(inner) > 0 && inner[len(inner)-1] != '\n' ||
		bytes.HasPrefix(inner, last) || bytes.Contains(inner, append([]byte("\n"), last...)) {
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
