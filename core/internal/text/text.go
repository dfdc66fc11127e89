// Package text says which texts can be kept.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Storable reports whether s can be stored as text: valid UTF-8 without NUL, which PostgreSQL cannot store.
func Storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// Typed reports whether s can be the name or the value of a reference, of at most so many bytes: a person types it into a
// form.
func Typed(s string, most int) bool {
	return s != "" && len(s) <= most && utf8.ValidString(s) && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
