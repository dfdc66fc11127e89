package core

import (
	"strings"
	"unicode/utf8"
)

// isText reports whether s can be kept as text: valid UTF-8 without NUL, which PostgreSQL has no room for.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
