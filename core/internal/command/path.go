package command

import (
	"net/url"
	"strings"
)

// pathOf returns the path of a request as it was sent, with its escapes. Middleware that rewrites only the decoded path
// leaves a stale one behind.
func pathOf(u *url.URL) string {
	if path, err := url.PathUnescape(u.RawPath); u.RawPath != "" && err == nil && path == u.Path {
		return u.RawPath
	}
	return u.EscapedPath()
}

// canonicalPath brings the spellings of one path into one form (RFC 3986, section 6.2.2): unreserved characters are not
// escaped, what cannot stand in a path is, and escapes have upper-case digits. Everything else counts: "%2F" is no slash,
// and slashes and dots are left to the router.
func canonicalPath(path string) string {
	plain := true
	for i := range len(path) {
		plain = plain && path[i] != '%' && inPath(path[i])
	}
	if plain {
		return path
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(path))
	for i := 0; i < len(path); i++ {
		c, escaped := path[i], false
		if c == '%' && i+2 < len(path) && isHex(path[i+1]) && isHex(path[i+2]) {
			c, escaped = unhex(path[i+1])<<4|unhex(path[i+2]), true
			i += 2
		}
		if isUnreserved(c) || !escaped && inPath(c) {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	return b.String()
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// inPath reports whether a byte can stand in a path as it is.
func inPath(c byte) bool { return isUnreserved(c) || strings.IndexByte("/:@!$&'()*+,;=", c) >= 0 }

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
