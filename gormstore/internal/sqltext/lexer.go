// Package sqltext reads the text of SQL statements: what a handler must not send, what may write, and what may stay on a
// connection. It reads a text as its database does, and sends nothing.
package sqltext

import (
	"iter"
	"strings"
)

// Dialect says which database reads a text.
type Dialect uint8

// The databases.
const (
	Postgres Dialect = iota
	SQLite
	MySQL

	Unknown = Postgres // where only the driver is known, or a piece of a statement
)

// tokenKind is the kind of a token. It distinguishes only what the guards need.
type tokenKind uint8

const (
	endOfText  tokenKind = iota
	word                 // a keyword or a name
	quotedName           // "name"; on SQLite [name] and `name` too; on MySQL `name`, and "name", which may be a string
	literal              // a string or a number
	symbol               // any other character
)

// token is a piece of a statement's text, with its quotes.
type token struct {
	kind tokenKind
	text string
}

// is reports whether t is a keyword, which has no quotes and any case.
func (t token) is(keyword string) bool { return t.kind == word && strings.EqualFold(t.text, keyword) }

// isSymbol reports whether t is the symbol c.
func (t token) isSymbol(c byte) bool { return t.kind == symbol && t.text[0] == c }

// name is the name that t means. A name without quotes is the same in any case. SQLite accepts a string as a name at
// places where only a name is possible.
func (t token) name() string {
	switch {
	case t.kind == word:
		return strings.ToLower(t.text)
	case len(t.text) < 2:
		return t.text
	}
	quote := t.text[len(t.text)-1:]
	return strings.ReplaceAll(t.text[1:len(t.text)-1], quote+quote, quote)
}

// lexer splits the text of a statement as its database does.
type lexer struct {
	text      string
	at        int
	dialect   Dialect
	backslash bool // standard_conforming_strings is off: a backslash escapes in every string

	quotesNames bool // ANSI_QUOTES is on: no backslash escapes in "..."
	executable  bool // there was a comment that MySQL may run
}

// readings returns the ways in which the database may read a text. Before PostgreSQL 19 a string with a backslash can be
// read in two ways: the setting standard_conforming_strings decides, and the server, a role, a function or the handler may
// have changed it. The guards cannot know which one counts, so they refuse what either of them says. On MySQL sql_mode
// decides.
func readings(d Dialect, text string) iter.Seq[lexer] {
	return func(yield func(lexer) bool) {
		escapes := d != SQLite && strings.Contains(text, `\`)
		_ = yield(lexer{text: text, dialect: d}) &&
			escapes && yield(lexer{text: text, dialect: d, backslash: true}) &&
			d == MySQL && yield(lexer{text: text, dialect: d, backslash: true, quotesNames: true})
	}
}

// next returns the next token. A string, name or comment that is not closed goes to the end of the text.
func (l *lexer) next() token {
	l.skip()
	if l.at >= len(l.text) {
		return token{}
	}
	start := l.at
	switch c := l.text[l.at]; {
	case l.isEscapeString():
		l.at++
		l.escapeStrings()
		return token{literal, l.text[start:l.at]}
	case isNameStart(c):
		l.until(isNamePart)
		return token{word, l.text[start:l.at]}
	case isDigit(c):
		l.until(func(c byte) bool { return isNamePart(c) && c != '$' || c == '.' })
		return token{literal, l.text[start:l.at]}
	case c == '"' && l.dialect == MySQL && l.backslash && !l.quotesNames:
		l.escapeString()
		return token{quotedName, l.text[start:l.at]}
	case c == '\'' && l.backslash:
		l.escapeStrings()
		return token{literal, l.text[start:l.at]}
	case c == '\'':
		l.quoted(c)
		return token{literal, l.text[start:l.at]}
	case c == '"', c == '`' && l.dialect != Postgres:
		l.quoted(c)
		return token{quotedName, l.text[start:l.at]}
	case c == '[' && l.dialect == SQLite:
		l.through("]")
		return token{quotedName, l.text[start:l.at]}
	case c == '$' && l.dialect == Postgres && l.dollarQuoted():
		return token{literal, l.text[start:l.at]}
	}
	l.at++
	return token{symbol, l.text[start:l.at]}
}

// skip skips white space and comments.
func (l *lexer) skip() {
	const byteOrderMark = "\ufeff" // SQLite takes it for white space
	for l.at < len(l.text) {
		rest := l.text[l.at:]
		switch {
		case strings.IndexByte(" \t\n\v\f\r", rest[0]) >= 0:
			l.at++
		case l.dialect == SQLite && strings.HasPrefix(rest, byteOrderMark):
			l.at += len(byteOrderMark)
		case l.dialect == MySQL && (rest[0] == '#' || strings.HasPrefix(rest, "--")):
			if rest[0] == '-' && len(rest) > 2 && rest[2] > ' ' && rest[2] != 0x7f {
				return // two signs
			}
			l.lineComment()
		case strings.HasPrefix(rest, "--"):
			l.lineComment()
		case strings.HasPrefix(rest, "/*"):
			l.blockComment()
		default:
			return
		}
	}
}

func (l *lexer) lineComment() {
	ends := "\n"
	if l.dialect == Postgres {
		ends = "\n\r"
	}
	if n := strings.IndexAny(l.text[l.at:], ends); n >= 0 {
		l.at += n
	} else {
		l.at = len(l.text)
	}
}

// blockComment skips a comment. On PostgreSQL a comment can contain others.
func (l *lexer) blockComment() {
	if rest := l.text[l.at:]; l.dialect == MySQL && (strings.HasPrefix(rest, "/*!") || strings.HasPrefix(rest, "/*M!")) {
		l.executable = true
	}
	if l.at += 2; l.dialect != Postgres {
		l.through("*/")
		return
	}
	for depth := 1; depth > 0 && l.at < len(l.text); {
		switch rest := l.text[l.at:]; {
		case strings.HasPrefix(rest, "/*"):
			l.at += 2
			depth++
		case strings.HasPrefix(rest, "*/"):
			l.at += 2
			depth--
		default:
			l.at++
		}
	}
}

// through moves past the next end.
func (l *lexer) through(end string) {
	if n := strings.Index(l.text[l.at:], end); n >= 0 {
		l.at += n + len(end)
	} else {
		l.at = len(l.text)
	}
}

func (l *lexer) until(part func(byte) bool) {
	for l.at < len(l.text) && part(l.text[l.at]) {
		l.at++
	}
}

// quoted moves past the closing quote. A doubled quote stands for one quote.
func (l *lexer) quoted(quote byte) {
	for l.at++; l.at < len(l.text); l.at++ {
		if l.text[l.at] != quote {
			continue
		}
		if l.at+1 == len(l.text) || l.text[l.at+1] != quote {
			l.at++
			return
		}
		l.at++
	}
}

// isEscapeString reports whether a string begins here in which a backslash escapes: E'...' on PostgreSQL.
func (l *lexer) isEscapeString() bool {
	rest := l.text[l.at:]
	return l.dialect == Postgres && (strings.HasPrefix(rest, "E'") || strings.HasPrefix(rest, "e'"))
}

// escapeStrings moves past a string in which a backslash escapes, and past its parts on further lines, where a backslash
// escapes as well.
func (l *lexer) escapeStrings() {
	for {
		l.escapeString()
		end := l.at
		l.skip()
		goesOn := l.at < len(l.text) && l.text[l.at] == '\'' && strings.ContainsAny(l.text[end:l.at], "\n\r") &&
			!strings.Contains(l.text[end:l.at], "/*")
		if !goesOn {
			l.at = end
			return
		}
	}
}

func (l *lexer) escapeString() {
	quote := l.text[l.at]
	for l.at++; l.at < len(l.text); l.at++ {
		switch c := l.text[l.at]; {
		case c == '\\':
			l.at++
		case c != quote:
		case l.at+1 < len(l.text) && l.text[l.at+1] == quote:
			l.at++
		default:
			l.at++
			return
		}
	}
	l.at = len(l.text)
}

// dollarQuoted moves past $$...$$ or $tag$...$tag$, if one begins here.
func (l *lexer) dollarQuoted() bool {
	tag := l.at + 1
	for tag < len(l.text) && (isNameStart(l.text[tag]) || tag > l.at+1 && isDigit(l.text[tag])) {
		tag++
	}
	if tag >= len(l.text) || l.text[tag] != '$' {
		return false
	}
	quote := l.text[l.at : tag+1]
	l.at = tag + 1
	l.through(quote)
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isNameStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80
}

func isNamePart(c byte) bool { return isNameStart(c) || isDigit(c) || c == '$' }
