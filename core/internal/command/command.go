// Package command decides which requests are the same command: it makes the hash of everything in a request that tells the
// handler what to do (contract H).
package command

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/auth19/idem/core/store"
)

// Command is what a key was sent for: everything in a request that decides what the handler does (H-1).
type Command struct {
	Method      string
	path        string // concrete and as it was sent, not the router's pattern
	rawQuery    string
	contentType string
	headers     []namedHeader // further headers that belong to the command, by the route's policy
	trailers    []namedHeader // all that were declared or came; complete when the body is read
	Body        []byte        // all of it; only read
}

// Of is the command of a request whose whole body has been read. headers are the names of those that belong to it.
func Of(r *http.Request, headers []string, body []byte) Command {
	return Command{
		Method: r.Method, path: pathOf(r.URL), rawQuery: r.URL.RawQuery, contentType: r.Header.Get("Content-Type"),
		headers: headersOf(r, headers), trailers: allHeaders(r.Trailer), Body: body,
	}
}

// namedHeader is a request header with its lines.
type namedHeader struct {
	name  string
	lines []string
}

// headersOf picks the headers called names out of a request. Go keeps the host apart from the headers. Its case does
// not count. Its port does, because the default port is not known here (H-7).
func headersOf(r *http.Request, names []string) []namedHeader {
	header := r.Header
	if slices.ContainsFunc(names, isHost) {
		header = header.Clone()
		header["Host"] = []string{strings.ToLower(r.Host)}
	}
	return headersNamed(header, names)
}

func isHost(name string) bool { return strings.EqualFold(name, "Host") }

// allHeaders returns the headers, by name.
func allHeaders(header http.Header) []namedHeader {
	all := make([]namedHeader, 0, len(header))
	for _, name := range sortedKeys(header) {
		all = append(all, namedHeader{name, header[name]})
	}
	return all
}

// headersNamed picks the headers called names out of header. The order of names does not count. An absent header adds
// nothing to the hash. So if a policy names one more header, repeats of clients that never sent it still match.
func headersNamed(header http.Header, names []string) []namedHeader {
	var picked []namedHeader
	for _, name := range names {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if lines, ok := header[name]; ok {
			picked = append(picked, namedHeader{name, lines})
		}
	}
	slices.SortFunc(picked, func(a, b namedHeader) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(picked, func(a, b namedHeader) bool { return a.name == b.name })
}

// Version is the version of the rules by which new records are hashed. The rules of a version never change.
// New rules get a new version beside the old one, so that a correct repeat still matches after a new release (H-4).
const Version int16 = 1

// ErrUnknownVersion means that the record was hashed by rules that this release does not know. Nothing can be said about the
// command, so the answer is 503 (H-4).
var ErrUnknownVersion = errors.New("idem: unknown version of the command hash; the record is from a newer release")

// Known reports whether this release knows the rules of a version; a record without a hash has none.
func Known(version int16) bool { return version <= Version }

// Hash returns the hash of c by the rules of the given version, or ErrUnknownVersion.
func (c Command) Hash(version int16) (store.CommandHash, error) {
	switch version {
	case 1:
		return store.CommandHash{Version: 1, Sum: c.hashV1()}, nil
	default:
		return store.CommandHash{}, fmt.Errorf("%w: %d", ErrUnknownVersion, version)
	}
}

// hashV1 is SHA-256 over these fields. Each field follows its length, and each list follows the number of its fields:
//
//	"command/1", method, canonical path, canonical query
//	media type, [name and value of each of its parameters, by name]
//	number of headers, and of each, by name: name, [lines]
//	number of trailers, and of each, by name: name, [lines]
//	form of the body, body in that form
func (c Command) hashV1() [sha256.Size]byte {
	w := workspaces.Get().(*workspace)
	defer w.release()
	mediaType, parameters := parseMediaType(c.contentType)
	form, body := "raw", c.Body
	switch {
	case IsJSON(c.contentType):
		if canonical, ok := w.json.of(c.Body); ok {
			form, body = "json", canonical
		}
	case mediaType == "multipart/form-data":
		if canonical, ok := canonicalMultipart(c.Body, parameters["boundary"]); ok {
			form, body = "multipart", canonical
			delete(parameters, "boundary")
		}
	}

	head := appendField(w.head[:0], "command/1")
	head = appendField(head, c.Method)
	head = appendField(head, canonicalPath(c.path))
	head = appendField(head, canonicalQuery(c.rawQuery))
	head = appendField(head, mediaType)
	head = appendCount(head, 2*len(parameters))
	for _, name := range sortedKeys(parameters) {
		head = appendField(head, name)
		head = appendField(head, parameters[name])
	}
	for _, headers := range [...][]namedHeader{c.headers, c.trailers} {
		head = appendCount(head, len(headers))
		for _, h := range headers {
			head = appendField(head, h.name)
			head = appendFields(head, h.lines)
		}
	}
	head = appendField(head, form)
	head = appendCount(head, len(body))

	w.digest.Reset()
	w.digest.Write(head)
	w.digest.Write(body)
	w.head = w.digest.Sum(head[:0])
	return [sha256.Size]byte(w.head)
}

// workspace is the memory in which a command is hashed. It is reused, because it is about as large as the body.
type workspace struct {
	digest hash.Hash
	head   []byte
	json   canonicalJSON
}

var workspaces = sync.Pool{New: func() any { return &workspace{digest: sha256.New()} }}

// release gives the workspace back to the pool, without the memory that an unusual body needed.
func (w *workspace) release() {
	const bytes, members = 64 << 10, 1 << 10
	if cap(w.head)+cap(w.json.form)+cap(w.json.spare)+cap(w.json.folded) <= bytes && cap(w.json.members) <= members {
		workspaces.Put(w)
	}
}

// appendField appends a field behind its length, as package digest does.
func appendField[T string | []byte](dst []byte, field T) []byte {
	return append(appendCount(dst, len(field)), field...)
}

// appendFields appends a list of fields behind their number.
func appendFields(dst []byte, fields []string) []byte {
	dst = appendCount(dst, len(fields))
	for _, f := range fields {
		dst = appendField(dst, f)
	}
	return dst
}

// sortedKeys is [slices.Sorted] of [maps.Keys] without its allocations, of which there are four for an empty map.
func sortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func appendCount(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(n)) //nolint:gosec // a length is not negative
}

// canonicalQuery sorts the parameters by name and keeps the order of values under one name. A query that cannot be parsed
// stays as it is. It never equals a canonical query, because those can be parsed.
func canonicalQuery(raw string) string {
	if raw == "" {
		return ""
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return raw
	}
	return values.Encode()
}

// parseMediaType returns a media type in lower case and the parameters that count (H-8). The charset UTF-8 does not: it is
// what JSON always is, and clients add it or leave it out. A header that cannot be parsed stays as it is. So does one with
// a star: the parser drops what it cannot join by RFC 2231.
func parseMediaType(contentType string) (mediaType string, parameters map[string]string) {
	base, rest, _ := strings.Cut(contentType, ";")
	if rest = strings.TrimSpace(rest); IsJSON(base) && (rest == "" || strings.EqualFold(rest, "charset=utf-8")) {
		return strings.ToLower(strings.TrimSpace(base)), nil // without the parser's allocations
	}
	mediaType, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || strings.Contains(contentType, "*") {
		return contentType, nil
	}
	if strings.EqualFold(parameters["charset"], "utf-8") {
		delete(parameters, "charset")
	}
	return mediaType, parameters
}

// IsJSON reports whether bodies of a content type are compared as JSON (H-2; RFC 6839, section 3.1), whatever its
// parameters are.
func IsJSON(contentType string) bool {
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	return mediaType == "application/json" || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json")
}
