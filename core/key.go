package core

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/auth19/idem/core/wire"
)

// KeyFormat says which keys a policy accepts (contract K-3). Keys are compared byte for byte in every format. So UUIDs must
// be in lower case: one UUID in two letter cases would be two keys (K-10). Swift prints UUIDs in upper case.
type KeyFormat uint8

// The key formats.
const (
	AnyKey  KeyFormat = iota // 1 to 255 visible ASCII characters; the default
	UUIDKey                  // only the 36 characters of a UUID (RFC 9562, section 4) in lower case, of any version
	// TimedKey accepts only UUIDs of version 7 in lower case. They contain the time at which they were made. A first request
	// with a key older than Policy.KeyAge is refused. So the store can forget keys that are too old, and a command runs at
	// most once for ever without tombstones. It needs a store that is a [store.Settings].
	TimedKey
)

// maxKeyLen is the longest key in characters, after unquoting (K-3).
const maxKeyLen = 255

// parseKey reads the key from the header called name (K-1 to K-4). A value that starts with a quote must be one complete
// RFC 9651 String. Any other value is the key itself, because a bare UUID that starts with a digit is not a structured
// field. No detail of a problem repeats the key.
func parseKey(header http.Header, name string, format KeyFormat) (string, *Problem) {
	lines := header.Values(name)
	if len(lines) > 1 {
		return "", invalidKey("the header %s may be sent only once", name)
	}
	var key string
	if len(lines) == 1 {
		key = strings.Trim(lines[0], " \t")
	}
	switch {
	case key == "":
		return "", NewProblem(CodeKeyMissing, "the header "+name+" is required")
	case key[0] == '"':
		unquoted, fault := unquoteKey(key)
		if fault != "" {
			return "", invalidKey("%s: %s", name, fault)
		}
		key = unquoted
	case strings.Contains(key, ","):
		return "", invalidKey("%s: send one key, not a list; a comma needs quotes around the key", name)
	}
	switch {
	case key == "" || len(key) > maxKeyLen:
		return "", invalidKey("%s: the key has %d characters; 1 to %d are allowed", name, len(key), maxKeyLen)
	case !isVisibleASCII(key):
		return "", invalidKey("%s: the key may hold only visible ASCII characters, no space", name)
	case format == UUIDKey && !isUUID(key):
		return "", invalidKey("%s: this route takes only UUIDs as keys", name)
	case format == TimedKey && !isUUIDv7(key):
		return "", invalidKey("%s: this route takes only UUIDs of version 7 as keys", name)
	case format != AnyKey && key != strings.ToLower(key):
		return "", invalidKey("%s: send the UUID in lower case; in another letter case it would be another key", name)
	}
	return key, nil
}

// filledIn are headers that proxies, platforms and middleware write into requests by themselves: a new value for each
// repeat, or one value for many commands. None of them can be the key's header (K-10).
var filledIn = map[string]bool{
	"Request-Id": true, "X-Request-Id": true, "X-Amzn-Requestid": true, "X-Ms-Request-Id": true,
	"Correlation-Id": true, "X-Correlation-Id": true, "X-Correlationid": true, "X-Requestid": true,
	"Traceparent": true, "Tracestate": true, "X-Trace-Id": true, "X-Amzn-Trace-Id": true, "X-Cloud-Trace-Context": true,
	"B3": true, "X-B3-Traceid": true, "X-B3-Spanid": true, "Uber-Trace-Id": true, "X-Datadog-Trace-Id": true,
	"Cf-Ray": true, "X-Azure-Ref": true,
}

func invalidKey(format string, args ...any) *Problem {
	return NewProblem(CodeKeyInvalid, fmt.Sprintf(format, args...))
}

// unquoteKey parses s, which starts with a quote, as an RFC 9651 String with nothing behind it (section 4.2.5). The
// caller checks which characters the key has. fault is "" if s is valid.
func unquoteKey(s string) (key, fault string) {
	escaped := false
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			escaped = true
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", `in a quoted key a backslash may stand only before \ or "`
			}
		case '"':
			if i != len(s)-1 {
				return "", "nothing may follow the quoted key, neither parameters nor a second key"
			}
			key = s[1:i]
			if escaped {
				key = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(key)
			}
			return key, ""
		}
	}
	return "", "the closing quote is missing"
}

func isVisibleASCII(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// isUUID reports whether s has the form 8-4-4-4-12 of hex digits.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch i {
		case 8, 13, 18, 23:
			if s[i] != '-' {
				return false
			}
		default:
			if !isHex(s[i]) {
				return false
			}
		}
	}
	return true
}

// isUUIDv7 reports whether s is a UUID of version 7 (RFC 9562, section 5.7), in its 36 characters of either letter case.
func isUUIDv7(s string) bool {
	return isUUID(s) && s[14] == '7' && strings.IndexByte("89abAB", s[19]) >= 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// keyInQuery reports whether a query contains a key, which every access log would then show (K-5). It looks for a
// parameter with the name of wire.HeaderKey or of the configured header, in any case, with hyphens or underscores,
// percent-encoded or not. It reads the raw query, because [net/url] drops parameters that it cannot parse.
func keyInQuery(rawQuery, header string) bool {
	// Some servers split at semicolons as well.
	for parameter := range strings.FieldsFuncSeq(rawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(parameter, "=")
		if spells(name, wire.HeaderKey) || spells(name, header) {
			return true
		}
	}
	return false
}

// spells reports whether the escaped name of a query parameter stands for header. It ignores what follows a broken
// escape.
func spells(name, header string) bool {
	for i := range len(header) {
		c, rest, ok := unescapeByte(name)
		if !ok || foldName(c) != foldName(header[i]) {
			return false
		}
		name = rest
	}
	_, _, more := unescapeByte(name)
	return !more
}

// unescapeByte decodes the first byte of s. ok is false at the end of s and at a broken escape.
func unescapeByte(s string) (c byte, rest string, ok bool) {
	switch {
	case s == "":
		return 0, "", false
	case s[0] != '%':
		return s[0], s[1:], true
	case len(s) < 3:
		return 0, "", false
	}
	var decoded [1]byte
	_, err := hex.Decode(decoded[:], []byte(s[1:3]))
	return decoded[0], s[3:], err == nil
}

// foldName returns c in lower case, and a hyphen for an underscore, so that all spellings of a name become equal.
func foldName(c byte) byte {
	switch {
	case c == '_':
		return '-'
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	}
	return c
}
