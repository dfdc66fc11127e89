package sqltext

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// The library's own savepoints. Handlers cannot use the names: see reserved.
const (
	// Savepoint is the one before the rows of a Rollback attempt. On SQLite it also shows that a transaction is still the one
	// that was begun.
	Savepoint = "idem_rows_of_the_attempt"

	// MessageSavepoint is the one at which a message that joins a transaction begins. If a handler made a savepoint of
	// this name, a message that fails would keep its marker, and would be lost.
	MessageSavepoint = "idem_message"
)

// ErrControl is the error of a statement that a handler must not send.
var ErrControl = errors.New("idem: gormstore: a handler must not end or change its transaction, which commits with the " +
	"answer, the step or the message. Return an error or a status instead; for a part that may fail use GORM's " +
	"tx.Transaction, or a savepoint of your own")

// Findings are what a transaction has to know about a text that an app sends.
type Findings struct {
	Control error    // one of them is transaction control: ErrControl
	Changes bool     // one of them may change the role or the search path; what may leave something may, too
	Marks   string   // the savepoint that one of them sets; "": none
	Undoes  string   // the savepoint that one of them goes back to, by ROLLBACK TO
	Writes  bool     // one of them may write: see MayWrite. A savepoint, a setting and a lock write nothing
	Calls   bool     // one of them may call a function that is not known, or is of no known kind
	Residue []string // what it may leave on the connection: see residueOf
}

// Inspect reads a text before it is sent into a transaction of the library. It refuses what is certainly transaction
// control: that stands at the start of a statement. Transaction control that it cannot see is noticed at the end of the
// transaction.
func Inspect(d Dialect, text string) (s Findings) {
	reads := false
	for l := range readings(d, text) {
		reads = s.read(l) || reads
	}
	s.Writes = s.Writes || reads && MayWrite(d, text) != ""
	return s
}

// Join adds what was found in another text of a batch.
func (s *Findings) Join(o Findings) {
	s.Control = cmp.Or(s.Control, o.Control)
	s.Changes, s.Calls = s.Changes || o.Changes, s.Calls || o.Calls
	s.Marks, s.Undoes = cmp.Or(o.Marks, s.Marks), cmp.Or(o.Undoes, s.Undoes)
	s.Residue = append(s.Residue, o.Residue...)
}

// Cache remembers what was found in texts: an app has few, unless it writes values into them.
type Cache struct {
	mu    sync.RWMutex
	known map[string]Findings
}

// Bounds of a Cache. Past the number all are forgotten.
const (
	maxInspections   = 512
	maxInspectedText = 4 << 10 // bytes; a longer text is read each time
)

// Of is [Inspect].
func (c *Cache) Of(d Dialect, text string) Findings {
	c.mu.RLock()
	found, ok := c.known[text]
	c.mu.RUnlock()
	if ok {
		return found
	}
	found = Inspect(d, text)
	if len(text) > maxInspectedText {
		return found
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) == maxInspections {
		c.known = make(map[string]Findings)
	}
	c.known[text] = found
	return found
}

// writesNothing are statements that are neither a write nor a query.
var writesNothing = words(`savepoint release rollback set reset lock fetch move close`)

// read adds what one reading of the text says, and reports whether there is a query in it.
func (s *Findings) read(l lexer) (queries bool) {
	if l.dialect == MySQL {
		return s.readMySQL(l)
	}
	text := l
	for more := true; more && s.Control == nil; {
		var head [6]token // the longest: ROLLBACK TRANSACTION name TO SAVEPOINT name
		more = l.statement(&head, s)
		if why := controls(l.dialect, head); why != "" {
			s.Control = fmt.Errorf("%w. Refused: %s", ErrControl, why)
		}
		s.Changes = s.Changes || changesSettings(head[0])
		if head[0].is("SAVEPOINT") {
			s.Marks = head[1].name()
		} else if head[0].is("ROLLBACK") {
			s.Undoes = savepointOf(head)
		}
		s.Calls = s.Calls || head[0].kind == word && !isTidy(head[0])
		switch first := head[0]; {
		case first.kind == endOfText, first.kind == word && writesNothing[first.name()]:
		case first.isSymbol('('), first.kind == word && reading[first.name()]:
			queries = true
		default:
			s.Writes = true
		}
	}
	if l.dialect == SQLite || s.Control != nil {
		return queries
	}
	if s.Changes {
		if why := setConfig(text); why != "" {
			s.Control = fmt.Errorf("%w. Refused: %s", ErrControl, why)
		}
	}
	if s.Calls {
		s.Residue = append(s.Residue, residueOf(text)...)
	}
	return queries
}

// savepointOf returns the name in ROLLBACK TO: all words before it are keywords.
func savepointOf(head [6]token) (name string) {
	for _, t := range head[1:] {
		if t.kind == word || t.kind == quotedName {
			name = t.name()
		}
	}
	return name
}

// setConfig says what is wrong with the calls of set_config in a text; "" for nothing. With a third argument other than the
// word true the setting may stay on the connection for its next user, as with SET without LOCAL.
func setConfig(l lexer) string {
	var tokens []token
	for t := l.next(); t.kind != endOfText; t = l.next() {
		tokens = append(tokens, t)
	}
	for i, t := range tokens {
		if i+1 == len(tokens) || !tokens[i+1].isSymbol('(') || t.kind != word && t.kind != quotedName || t.name() != "set_config" {
			continue
		}
		if i > 1 && tokens[i-1].isSymbol('.') && tokens[i-2].name() != "pg_catalog" {
			continue // a function of the app
		}
		if third := argument(tokens[i+2:], 3); len(third) > 0 && !saysTrue(third) {
			return "set_config whose third argument is not the word true: the setting may stay on the pooled connection; write " +
				"set_config(name, value, true)"
		}
		if slices.ContainsFunc(argument(tokens[i+2:], 1), isOfTransaction) {
			return "SET TRANSACTION"
		}
	}
	return ""
}

// isOfTransaction reports whether a token names a setting that is what SET TRANSACTION sets.
func isOfTransaction(t token) bool {
	return slices.Contains([]string{"transaction_read_only", "transaction_isolation", "transaction_deferrable"},
		strings.ToLower(t.name()))
}

// saysTrue reports whether an argument is the word true, perhaps with its name: is_local => true.
func saysTrue(argument []token) bool {
	named := len(argument) == 4 && argument[0].name() == "is_local" // := and => are two symbols
	return argument[len(argument)-1].is("TRUE") && (named || len(argument) == 1)
}

// argument returns the nth argument of a call whose tokens begin after the opening parenthesis; nil if there is none.
func argument(tokens []token, n int) []token {
	depth, begin := 0, 0
	for i, t := range tokens {
		switch {
		case t.isSymbol('('), t.isSymbol('['):
			depth++
		case depth > 0 && (t.isSymbol(')') || t.isSymbol(']')):
			depth--
		case depth == 0 && (t.isSymbol(',') || t.isSymbol(')')):
			if n--; n == 0 {
				return tokens[begin:i]
			}
			if begin = i + 1; t.isSymbol(')') {
				return nil
			}
		}
	}
	return nil
}

// statement reads one statement. It returns the first tokens, and whether another statement may follow.
// What is anywhere in the statement it notes in s.
func (l *lexer) statement(head *[6]token, s *Findings) (more bool) {
	n, inBody := 0, 0
	columns, qualified := false, false // a list of columns may come; last has a schema
	var last token
	for {
		t := l.next()
		switch {
		case t.kind == endOfText:
			return false
		case t.isSymbol(';') && inBody == 0:
			return true
		case t.isSymbol('('):
			s.Calls = s.Calls || !columns && (qualified || maySuspect(last))
			columns = false
		case t.kind == word || t.kind == quotedName:
			if n > 0 && l.dialect == Postgres && makesTable(head[0], last, t) {
				s.Residue = append(s.Residue, strings.ToUpper(t.text))
			}
			s.Changes = s.Changes || t.is("set_config") || t.kind == quotedName && t.name() == "set_config"
			columns = t.is("INTO") || t.is("CONFLICT") && last.is("ON") || columns && !keywords[t.name()]
			qualified = last.isSymbol('.')
			inBody += body(l.dialect, head, last, t, inBody)
		}
		if n < len(head) {
			head[n] = t
			n++
		}
		last = t
	}
}

// body counts the blocks in the body of a trigger or function, where a semicolon ends no statement: 1 for the begin of a
// block, -1 for its end.
func body(d Dialect, head *[6]token, last, t token, depth int) int {
	switch {
	case !head[0].is("CREATE"):
	case depth > 0 && t.is("CASE"):
		return 1
	case depth > 0 && t.is("END"):
		return -1
	case depth == 0 && d == Postgres && last.is("BEGIN") && t.is("ATOMIC"):
		return 1
	case depth == 0 && d == SQLite && t.is("BEGIN") && (head[1].is("TRIGGER") || head[2].is("TRIGGER")):
		return 1
	}
	return 0
}

// controls says what is wrong with a statement that begins with head; "" for nothing.
func controls(d Dialect, head [6]token) string {
	first, second := strings.ToUpper(head[0].text), head[1]
	if head[0].kind != word {
		return ""
	}
	switch first {
	case "BEGIN", "START", "COMMIT", "END", "ABORT":
		return first
	case "SAVEPOINT":
		return reserved(head[1:])
	case "RELEASE":
		return reserved(behindSavepoint(head[1:]))
	case "ROLLBACK":
		for i, t := range head[1:4] {
			if t.is("TO") {
				return reserved(behindSavepoint(head[i+2:]))
			}
		}
		return first
	}
	if d == SQLite {
		return pragma(head)
	}
	switch third := head[2]; {
	case first == "PREPARE" && second.is("TRANSACTION"),
		first == "SET" && (second.is("TRANSACTION") || third.is("TRANSACTION") || third.is("CHARACTERISTICS")),
		(first == "SET" || first == "RESET") && (isOfTransaction(second) || isOfTransaction(third)):
		return first + " TRANSACTION"
	case first == "SET" && third.is("U") && head[3].isSymbol('&'):
		return "a setting whose name has escapes"
	case first == "RESET" && second.is("ALL"), first == "DISCARD":
		return first + " " + strings.ToUpper(second.text)
	case first == "SET" && (!second.is("LOCAL") && !second.is("CONSTRAINTS") || third.isSymbol('.')): // SET local.x = 1
		// The next user of the connection would get the role, or read-only transactions.
		return "SET without LOCAL stays on the pooled connection; write SET LOCAL"
	}
	return ""
}

// pragma says what is wrong with a PRAGMA of SQLite that sets something: it stays on the connection.
func pragma(head [6]token) string {
	sets := head[2].isSymbol('=') || head[4].isSymbol('=') || head[1].is("query_only") || head[3].is("query_only")
	if head[0].is("PRAGMA") && sets {
		return "a PRAGMA that sets something stays on the pooled connection"
	}
	return ""
}

// behindSavepoint returns the tokens without the word SAVEPOINT, which may be left out.
func behindSavepoint(tokens []token) []token {
	if tokens[0].is("SAVEPOINT") && len(tokens) > 1 && tokens[1].kind != endOfText {
		return tokens[1:]
	}
	return tokens
}

// reserved says that a savepoint has a name of the library, or may have: U&"..." is a name with escapes.
func reserved(name []token) string {
	if len(name) > 1 && name[0].is("U") && name[1].isSymbol('&') {
		return "a savepoint whose name has escapes"
	}
	for _, own := range []string{Savepoint, MessageSavepoint} {
		if strings.EqualFold(name[0].name(), own) {
			return "the savepoint " + own + " is the library's own"
		}
	}
	return ""
}

// changesSettings reports whether a statement of PostgreSQL that begins with first may change the role or the search path.
func changesSettings(first token) bool {
	return first.is("SET") || first.is("RESET") || first.is("DO") || first.is("CALL")
}

// IsControl reports whether a text only begins or ends a transaction, as that of a handler's own reads does.
func IsControl(d Dialect, text string) bool {
	l := lexer{text: text, dialect: d}
	if first := l.next(); first.kind != word || !transactionControl[first.name()] {
		return false
	}
	for t := l.next(); t.kind != endOfText; t = l.next() {
		if t.isSymbol(';') {
			return l.next().kind == endOfText
		}
	}
	return true
}

var transactionControl = words("begin start commit rollback end abort savepoint release")
