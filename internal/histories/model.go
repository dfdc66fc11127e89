package histories

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/auth19/idem/core"
)

// The model: what the contract says of one key, one move after the other. An operation of a history is one move or two,
// each somewhere between the call and the return of its operation:
//
//   - a request that ran the handler has two, the claim and the end of the attempt, because others see the time between;
//   - any other answer is one move that changes nothing, and is legal in some states only;
//   - a request without an answer, or with one that leaves open what happened (a connection that was cut, 503), is one
//     that never returns: from its call on it may claim, complete or end otherwise at any time, or do nothing. Its client
//     does not know, and so the model does not either: see adrift. The answer that it recorded, which nobody has seen,
//     is learned from the first replay. A request that a proxy has doubled is one more of these;
//   - a settlement that was accepted is one move, from unknown to the operator's answer, or to free. One that may still
//     arrive happens at any time, once, or never;
//   - a Resume attempt that nobody goes on with may be parked at any time;
//   - a Rollback handler that ends its own transaction is never told that it succeeded. Its record may be seen, or be gone
//     and its key be free, while it runs; what it has written before and after may stay.

// state is the state of a key.
type state struct {
	is      core.State
	command command // of all but Free
	owner   int     // the operation whose attempt this is, or was; nobody or operator
	answer  string  // of Completed and Expired: "" where nobody has seen it yet
	lapsed  bool    // of Unknown: for no other reason than that the lease has run out

	cut  commands // of requests that never returned, and may do anything that a request does
	away commands // likewise, but they never reached their handler, or it was undone: they may hold the key for a while

	old   bool      // a first attempt is refused by the time of the key (T-6)
	due   decisions // settlements that may still arrive
	spent bool      // an attempt was settled, or ended its transaction itself: what it did may be there, whatever the answer is
}

// Owners beside the operations of a history. Requests that never returned are nobody's: which of them it is makes no
// difference. Nobody can complete what an operator has settled.
const (
	nobody   = -1
	operator = -2
)

// command is a command of a key, numbered in the order in which they came; commands are a set of them.
type (
	command  uint8
	commands uint32
)

// decision is a settlement of a key that may still arrive, numbered likewise; decisions are a set of them.
type (
	decision  uint8
	decisions uint64
)

func (c command) String() string { return string(rune('A' + c)) }

func (s commands) has(c command) bool { return s&(1<<c) != 0 }

// text is for drawings.
func (s state) text() string {
	text := s.is.String()
	if s.is != core.Free {
		text += fmt.Sprintf(" %v", s.command)
	}
	switch s.is {
	case core.Running, core.Unknown, core.Completed:
		switch s.owner {
		case nobody:
			text += " by one that never returned"
		case operator:
			text += " by settlement"
		default:
			text += fmt.Sprintf(" by #%d", s.owner)
		}
	}
	return text
}

// move is a step of the model.
type move struct {
	step     func(m move, s state) []state
	words    string
	op       int
	command  command
	recovery core.Recovery
	maybe    bool         // it may not have happened
	late     bool         // it took as long as a lease: its attempt may have been taken over
	ends     []core.State // of an end: what may have become of the attempt; Running: it can go on
	answer   string       // of a settlement "" where it frees the key
	ledger   int
	provider int

	decision decision // of a settlement that may still arrive
	due      []string // the answers of all those of the key
	enders   commands // the commands of the key whose handlers end their transaction themselves
}

// seen reports whether others see a running attempt: in Rollback only where its handler may have committed it.
func (m move) seen(s state) bool { return m.recovery != core.Rollback || m.enders.has(s.command) }

// text is for drawings.
func (m move) text() string {
	words := m.words
	if m.maybe {
		words += ", perhaps"
	}
	return fmt.Sprintf("#%d %v %s %.40s", m.op, m.command, words, m.answer)
}

// model is the model of one key; a history is taken apart by keys before.
var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{is: core.Free}} },
	Step: func(s, input, _ any) (next []any) {
		m := input.(move)
		for _, from := range adrift(s.(state), m) {
			for _, to := range m.step(m, from) {
				next = append(next, to)
			}
			if m.maybe {
				next = append(next, from)
			}
		}
		return next
	},
	DescribeOperation: func(input, _ any) string { return input.(move).text() },
	DescribeState:     func(s any) string { return s.(state).text() },
}).ToModel()

var illegal []state

func stay(s state) []state { return []state{s} }

// adrift is s, and all that may have become of it before m, by requests and settlements that never returned.
func adrift(s state, m move) (all []state) {
	all = []state{s}
	for i := 0; i < len(all); i++ {
		for _, next := range slices.Concat(drift(all[i], m), decided(all[i], m)) {
			if !slices.Contains(all, next) {
				all = append(all, next)
			}
		}
	}
	return all
}

// drift is what one of the requests may do.
func drift(s state, m move) (next []state) {
	for c := range command(32) {
		if !s.cut.has(c) && !s.away.has(c) {
			continue
		}
		m := move{op: nobody, command: c, recovery: m.recovery, enders: m.enders}
		next = append(next, claim(m, s)...)
		if s.command != c {
			continue
		}
		m.ends = []core.State{core.Free}
		if m.seen(s) {
			m.ends = append(m.ends, core.Unknown)
		}
		if s.cut.has(c) {
			m.ends = append(m.ends, core.Completed)
		}
		next = append(next, end(m, s)...)
	}
	return next
}

// decided is what one of the settlements may do: whichever repeat of it arrives, it happens once.
func decided(s state, m move) (next []state) {
	for d, answer := range m.due {
		if s.due&(1<<d) == 0 {
			continue
		}
		for _, to := range settle(move{recovery: m.recovery, answer: answer, enders: m.enders}, s) {
			to.due &^= 1 << d
			next = append(next, to)
		}
	}
	return next
}

// depart is the call of a request that never returns; refuse that of one that runs no handler, or undoes it.
func depart(m move, s state) []state {
	s.cut |= 1 << m.command
	return stay(s)
}

func refuse(m move, s state) []state {
	s.away |= 1 << m.command
	return stay(s)
}

// claim begins an attempt: where the key is free, or where a Resume attempt of the same command can be gone on with.
// Whether the lease of that one has run out is not asked: what must not happen, a second effect, shows in the audit. A
// handler that has rolled its transaction back has freed its own key. A free key that is too old is not claimed.
func claim(m move, s state) []state {
	resumes := m.recovery == core.Resume && s.command == m.command
	goesOn := resumes && s.is == core.Running
	if !goesOn && (s.old || !isFree(m, s)) {
		return illegal
	}
	s.is, s.command, s.owner = core.Running, m.command, m.op
	s.spent = s.spent || m.enders.has(m.command)
	return stay(s)
}

// end ends the attempt that the operation has begun, unless another has taken it over. An attempt whose lease had run
// out, so that it counted as unknown, may still complete, or prove that nothing was applied: a claim whose owner got
// an error is released when the store is back (F-1).
func end(m move, s state) (next []state) {
	if s.owner != m.op || s.is != core.Running && s.is != core.Unknown {
		return illegal
	}
	for _, is := range m.ends {
		to := s
		to.lapsed = false
		switch {
		case is == core.Completed && m.enders.has(s.command) && strings.HasPrefix(m.answer, "2"):
			continue // it was refused before it came so far, if anything
		case is == core.Completed:
			to.is, to.answer = core.Completed, m.answer
			to.spent = s.spent && !strings.HasPrefix(m.answer, "2") // carried out after all, once
		case s.is == core.Unknown && is != core.Unknown && !s.lapsed:
			continue // only a settlement frees it
		case is == core.Free:
			to.is, to.command, to.owner = core.Free, 0, 0
		default:
			to.is = is
		}
		next = append(next, to)
	}
	return next
}

// collide ends an attempt whose step has met a row that another command had left (D-3): one that was settled as not
// applied, although nobody took its row back.
func collide(m move, s state) []state {
	if !s.spent {
		return illegal
	}
	return end(m, s)
}

// settle is a settlement that is accepted: it ends an unknown attempt, for good. That lease and deadline had passed
// is not asked. What the attempt has done, or still does at its provider, no settlement takes back.
func settle(m move, s state) []state {
	if s.is != core.Unknown && (s.is != core.Running || !m.seen(s)) {
		return illegal
	}
	s.spent, s.lapsed = true, false
	if m.answer == "" {
		s.is, s.command, s.owner = core.Free, 0, 0
	} else {
		s.is, s.owner, s.answer = core.Completed, operator, m.answer
	}
	return stay(s)
}

// order is a settlement that may still arrive.
func order(m move, s state) []state {
	s.due |= 1 << m.decision
	return stay(s)
}

// absent is a settlement that is refused because there is no such operation.
func absent(m move, s state) []state {
	if s.is != core.Free && (s.is != core.Running || m.recovery != core.Rollback) {
		return illegal
	}
	return stay(s)
}

// replay is the recorded answer, byte for byte (M-3).
func replay(m move, s state) []state {
	if s.is != core.Completed || s.command != m.command || s.answer != "" && s.answer != m.answer {
		return illegal
	}
	if s.answer == "" && m.enders.has(m.command) && strings.HasPrefix(m.answer, "2") {
		return illegal
	}
	if s.answer == "" {
		s.answer = m.answer
		s.spent = s.spent && !strings.HasPrefix(m.answer, "2")
	}
	return stay(s)
}

// busy is a refusal because an attempt is running (M-2), of whatever command: others see which one only when the claim
// has committed, in Rollback together with the rest. A key that is too old is never claimed, but a request that is about to
// be refused holds its lock for a moment, and the lock comes first (T-6).
func busy(_ move, s state) []state {
	if s.is != core.Running && (s.is != core.Free || !s.old) {
		return illegal
	}
	return stay(s)
}

// mismatch is a refusal because the key belongs to another command (M-1).
func mismatch(m move, s state) []state {
	if s.is == core.Free || s.command == m.command || s.is == core.Running && !m.seen(s) {
		return illegal
	}
	return stay(s)
}

// unknown is a refusal because nobody knows what became of the attempt (M-4). In Park it comes of itself when the lease
// of an attempt runs out, in Resume after some attempts or some time; in Rollback only where the handler has ended its own
// transaction. Whoever's attempt was taken over, or settled, is told the same, because what is there now is not always
// its own.
func unknown(m move, s state) []state {
	switch same := s.command == m.command; {
	case m.late && (s.spent || m.recovery == core.Resume):
		return stay(s)
	case same && s.is == core.Unknown:
		return stay(s)
	case same && s.is == core.Running && m.seen(s):
		s.is, s.lapsed = core.Unknown, true
		return stay(s)
	case m.enders.has(m.command) && s.spent: // its key was free while it ran, and another has used it
		return stay(s)
	}
	return illegal
}

// expired is a refusal because the answer is past retention (M-5).
func expired(m move, s state) []state {
	if s.is != core.Expired || s.command != m.command {
		return illegal
	}
	return stay(s)
}

// expire is the end of retention; forget that nothing was there for it to end.
func expire(_ move, s state) []state {
	if s.is != core.Completed {
		return illegal
	}
	s.is = core.Expired
	return stay(s)
}

func forget(_ move, s state) []state {
	if s.is == core.Completed {
		return illegal
	}
	return stay(s)
}

// audit compares the effects with the state: once where the command was carried out, not at all where it was refused or
// the key is free, at most once where nobody knows, or where an operator has decided.
func audit(m move, s state) []state {
	provider, most := 1, m.provider // what is booked was charged before
	if m.recovery == core.Rollback {
		provider, most = 0, 0
		if s.spent {
			most = 1
		}
	}
	none := m.ledger == 0 && m.provider == 0
	once := m.ledger == 1 && m.provider == provider
	atMostOnce := m.ledger <= most && m.provider <= provider
	var legal bool
	switch s.is {
	case core.Completed, core.Expired:
		switch {
		case s.answer == "": // nobody has seen whether it was refused
			legal = none || once
		case strings.HasPrefix(s.answer, "2"):
			legal = once
		default:
			legal = none
		}
	case core.Running, core.Unknown:
		legal = atMostOnce
	default:
		legal = none
	}
	if !legal && (!s.spent || !atMostOnce) {
		return illegal
	}
	return stay(s)
}

// isFree reports whether a key may be free: a handler that has rolled its transaction back has freed its own.
func isFree(m move, s state) bool {
	return s.is == core.Free || s.is == core.Running && m.recovery == core.Rollback && m.enders.has(s.command)
}

// age is the moment from which on the key is too old; tooOld is what a request is told then that finds no record.
func age(_ move, s state) []state {
	s.old = true
	return stay(s)
}

func tooOld(m move, s state) []state {
	if !s.old || !isFree(m, s) {
		return illegal
	}
	return stay(s)
}

// never is a move that no state allows.
func never(move, state) []state { return illegal }
