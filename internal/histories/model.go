package histories

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// The model: what the contract allows for one key, one move after the other. An operation of a history is one move or two.
// Each move happens at some time between the call and the return of its operation:
//
//   - A request that ran the handler has two moves, the claim and the end of the attempt, because others can see the record
//     between them.
//   - Any other answer is one move. It changes nothing, and is legal in some states only.
//   - A request without an answer, or with an answer that leaves open what happened (a cut connection, 503), never returns
//     in the model. From its call on it may claim, complete or end in another way at any time, or do nothing: see adrift.
//     If it recorded an answer, the model learns that answer from the first replay. The second copy of a request that a
//     proxy sent twice is modelled in the same way.
//   - A settlement that was accepted is one move, from unknown to the operator's answer, or to free. A settlement whose
//     answer is missing may happen once, at any time, or never.
//   - A Resume attempt that nobody has seen a record of may have committed nothing yet: then its failure frees the key, as
//     in Rollback. Behind its first commit a failure leaves the operation to the next repeat.
//   - A Resume operation without a running attempt may be parked at any time. The app's own Run may go on with it
//     (Config.Resume): an attempt that nobody sees, whose answer the model learns from the first replay.
//   - A Rollback handler that ends its own transaction never gets a success. While it runs, its record may be visible, or be
//     gone so that its key is free. The rows that it wrote before and after may stay.

// state is the state of a key.
type state struct {
	is      store.State
	command command // in every state but Free
	owner   int     // the operation whose attempt this is, or was; nobody or operator
	answer  string  // in Completed and Expired: "" if nobody has seen it yet
	lapsed  bool    // in Unknown: only because the lease has run out
	unseen  bool    // in Running, of Resume: perhaps nothing has committed yet, and nobody has seen a record
	since   int64   // in Running, of Resume: when the last request began that has claimed it; farOff: the app does not go on
	left    bool    // in Running, of Resume: its attempt has ended without an answer

	cut  commands // of requests that never returned: they may do anything that a request does
	away commands // the same, but no handler ran or its rows were undone: they may hold the key for a while

	freed int64 // in Free: until when the attempt was under way that has freed a key which counted as unknown; 0: none

	old   bool      // a first attempt is refused by the time of the key (T-6)
	due   decisions // settlements that may still arrive
	spent bool      // an attempt was settled, or ended its transaction itself: its effects may be there, whatever the answer is
}

// Owners that are not operations of a history. All requests that never returned share the owner unreturned, because it makes
// no difference which of them holds the key. If the owner is operator, no attempt can complete any more. The owner service
// is an attempt of the app itself.
const (
	unreturned = -1
	operator   = -2
	service    = -3
)

// farOff is behind every time of a history.
const farOff = math.MaxInt64

// command is the number of a command of a key, in the order of arrival; commands is a set of them.
type (
	command  uint8
	commands uint32
)

// decision is the number of a settlement of a key that may still arrive; decisions is a set of them.
type (
	decision  uint8
	decisions uint64
)

func (c command) String() string { return string(rune('A' + c)) }

func (s commands) has(c command) bool { return s&(1<<c) != 0 }

// text is for drawings.
func (s state) text() string {
	text := s.is.String()
	if s.is != store.Free {
		text += fmt.Sprintf(" %v", s.command)
	}
	switch s.is {
	case store.Running, store.Unknown, store.Completed:
		switch s.owner {
		case unreturned:
			text += " by one that never returned"
		case operator:
			text += " by settlement"
		case service:
			text += " by the app itself"
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
	maybe    bool          // it may not have happened
	call     int64         // when its operation began
	until    int64         // when it ended; 0: never
	late     bool          // it took at least as long as a lease: its attempt may have been taken over
	ends     []store.State // of an end: the states in which it may leave the attempt; Running: a repeat can continue
	answer   string        // of a settlement: "" if it frees the key
	ledger   int
	provider int

	decision decision // number of a settlement that may still arrive
	due      []string // the answers of all such settlements of the key
	enders   commands // the commands of the key whose handlers end their transaction themselves
}

// seen reports whether others see a running attempt: in Rollback only if its handler may have committed by itself.
func (m move) seen(s state) bool { return m.recovery != core.Rollback || m.enders.has(s.command) }

// text is for drawings.
func (m move) text() string {
	words := m.words
	if m.maybe {
		words += ", perhaps"
	}
	return fmt.Sprintf("#%d %v %s %.40s", m.op, m.command, words, m.answer)
}

// model is the model of one key. A history is divided by keys before.
var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{is: store.Free}} },
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

// adrift returns s, and all states that requests and settlements which never returned may have made of it before m.
func adrift(s state, m move) (all []state) {
	all = []state{s}
	for i := 0; i < len(all); i++ {
		for _, next := range slices.Concat(drift(all[i], m), decided(all[i], m), resumed(all[i], m)) {
			if !slices.Contains(all, next) {
				all = append(all, next)
			}
		}
	}
	return all
}

// drift returns what one of these requests may do.
func drift(s state, m move) (next []state) {
	for c := range command(32) {
		if !s.cut.has(c) && !s.away.has(c) {
			continue
		}
		m := move{op: unreturned, command: c, recovery: m.recovery, enders: m.enders}
		next = append(next, claim(m, s)...)
		if s.command != c {
			continue
		}
		m.ends = []store.State{store.Free}
		if m.seen(s) {
			m.ends = append(m.ends, store.Unknown)
		}
		if s.cut.has(c) {
			m.ends = append(m.ends, store.Completed)
		}
		next = append(next, end(m, s)...)
	}
	return next
}

// resumed returns what the app may do by itself with a half-done Resume operation. Its attempt begins when that of a request
// has ended without an answer, or may have died, or when the lease of one that answers later may have run out by the time
// of m. It completes, or leaves the operation as it is.
func resumed(s state, m move) []state {
	if m.recovery != core.Resume {
		return nil
	}
	if s.owner == service {
		return end(move{op: service, recovery: m.recovery, enders: m.enders, ends: []store.State{store.Completed}}, s)
	}
	ranOut := m.until-s.since >= int64(lease)
	if s.owner == unreturned {
		ranOut = s.cut.has(s.command) // the handlers of the others did not run
	}
	if s.is != store.Running || !s.left && !ranOut {
		return nil
	}
	s.owner, s.unseen, s.left = service, false, false
	return stay(s)
}

// hasSame reports whether a settlement before this one may still arrive with the same answer. It makes no difference which
// of them arrives, so the model takes the first: a history with a dozen of them would have too many states.
func (s state) hasSame(d int, due []string) bool {
	for i, answer := range due[:d] {
		if answer == due[d] && s.due&(1<<i) != 0 {
			return true
		}
	}
	return false
}

// decided returns what one of these settlements may do: it happens once, even if several repeats of it arrive.
func decided(s state, m move) (next []state) {
	for d, answer := range m.due {
		if s.due&(1<<d) == 0 || s.hasSame(d, m.due) {
			continue
		}
		for _, to := range settle(move{recovery: m.recovery, answer: answer, enders: m.enders}, s) {
			to.due &^= 1 << d
			next = append(next, to)
		}
	}
	return next
}

// depart is the call of a request that never returns. refuse is the call of a request that runs no handler, or whose handler
// is undone.
func depart(m move, s state) []state {
	s.cut |= 1 << m.command
	return stay(s)
}

func refuse(m move, s state) []state {
	s.away |= 1 << m.command
	return stay(s)
}

// claim begins an attempt if the key is free, or if a Resume operation of the same command can continue. The model does not
// check that the lease of the last attempt has run out: a second effect would show in the audit. A handler that has rolled
// its transaction back has freed its own key. A free key that is too old is not claimed.
func claim(m move, s state) []state {
	resumes := m.recovery == core.Resume && s.command == m.command
	goesOn := resumes && s.is == store.Running
	if !goesOn && (s.old || !isFree(m, s)) {
		return illegal
	}
	s.is, s.command, s.owner, s.freed = store.Running, m.command, m.op, 0
	s.unseen = m.recovery == core.Resume && !goesOn
	if s.left = false; m.recovery == core.Resume {
		s.since = m.call
	}
	s.spent = s.spent || m.enders.has(m.command)
	return stay(s)
}

// end ends the attempt that the operation has begun, unless another has taken it over. An attempt whose lease had run
// out, so that it counted as unknown, may still complete, or prove that nothing was applied: a claim whose owner got
// an error is released when the store is back (F-1).
func end(m move, s state) (next []state) {
	if s.owner != m.op || s.is != store.Running && s.is != store.Unknown {
		return illegal
	}
	for _, is := range m.ends {
		to := s
		to.lapsed, to.unseen, to.left, to.since = false, false, false, 0
		switch {
		case is == store.Free && m.recovery == core.Resume && s.is == store.Running && !s.unseen:
			continue // a segment has committed: a failure does not free the key any more
		case is == store.Completed && m.enders.has(s.command) && strings.HasPrefix(m.answer, "2"):
			continue // it can only have been refused before
		case is == store.Completed:
			to.is, to.answer = store.Completed, m.answer
			to.spent = s.spent && !strings.HasPrefix(m.answer, "2") // it was carried out after all, once
		case s.is == store.Unknown && is != store.Unknown && !s.lapsed:
			continue // only a settlement frees the key
		case is == store.Free:
			to.is, to.command, to.owner = store.Free, 0, 0
			if s.is == store.Unknown { // by its owner's word: a settlement has another move
				to.freed = m.until
			}
		default:
			if to.is = is; is == store.Running {
				to.left, to.since = true, s.since
			}
		}
		next = append(next, to)
	}
	return next
}

// collide ends an attempt whose step found a row of another command (D-3). That command was settled as not applied, although
// nobody had removed its row. The app must not go on with it by itself: the row has the other command's amount.
func collide(m move, s state) (next []state) {
	if !s.spent {
		return illegal
	}
	for _, to := range end(m, s) {
		to.left, to.since = false, farOff
		next = append(next, to)
	}
	return next
}

// settle is a settlement that is accepted: it ends an unknown attempt for good. The model does not check that lease
// and deadline had passed. A settlement does not undo what the attempt has done, or still does at its provider.
func settle(m move, s state) []state {
	if s.is != store.Unknown && (s.is != store.Running || !m.seen(s)) {
		return illegal
	}
	s.spent, s.lapsed, s.unseen, s.left, s.since = true, false, false, false, 0
	if m.answer == "" {
		s.is, s.command, s.owner = store.Free, 0, 0
	} else {
		s.is, s.owner, s.answer = store.Completed, operator, m.answer
	}
	return stay(s)
}

// order sends a settlement that may still arrive.
func order(m move, s state) []state {
	s.due |= 1 << m.decision
	return stay(s)
}

// absent is a settlement that is refused because there is no such operation. One whose attempt nobody has seen may have died
// without a trace by then.
func absent(m move, s state) []state {
	if s.is != store.Free && (s.is != store.Running || m.recovery != core.Rollback && !s.unseen) {
		return illegal
	}
	return stay(s)
}

// replay is the recorded answer, byte for byte (M-3).
func replay(m move, s state) []state {
	if s.is != store.Completed || s.command != m.command || s.answer != "" && s.answer != m.answer {
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
// be refused holds its lock for a moment, and the lock is checked first (T-6). A repeat that meets an owner which wakes up
// late while it frees an unknown key is told so, too: it has lost its claim, and the next one wins.
func busy(m move, s state) []state {
	if s.is != store.Running && (s.is != store.Free || !s.old && m.call >= s.freed) {
		return illegal
	}
	return stay(s)
}

// mismatch is a refusal because the key belongs to another command (M-1), which is seen by then.
func mismatch(m move, s state) []state {
	if s.is == store.Free || s.command == m.command || s.is == store.Running && !m.seen(s) {
		return illegal
	}
	s.unseen = false
	return stay(s)
}

// unknown is a refusal because nobody knows the outcome of the attempt (M-4). In Park an operation becomes unknown when the
// lease of its attempt runs out, in Resume after some attempts or some time, in Rollback only if the handler has ended its
// own transaction. A request whose attempt was taken over or settled gets the same answer, because the record is not always
// its own by then.
func unknown(m move, s state) []state {
	switch same := s.command == m.command; {
	case m.late && (s.spent || m.recovery == core.Resume):
		return stay(s)
	case same && s.is == store.Unknown:
		return stay(s)
	case same && s.is == store.Running && m.seen(s):
		if s.owner == service && m.until-s.since < int64(lease) { // its lease cannot have run out, so it has ended, too
			s.owner = operator
		}
		s.is, s.lapsed, s.unseen, s.left, s.since = store.Unknown, true, false, false, 0
		return stay(s)
	case m.enders.has(m.command) && s.spent: // the key was free while the handler ran, and another command has used it
		return stay(s)
	}
	return illegal
}

// expired is a refusal because the answer is past retention (M-5).
func expired(m move, s state) []state {
	if s.is != store.Expired || s.command != m.command {
		return illegal
	}
	return stay(s)
}

// expire is the end of retention. forget is an end of retention that found no answer.
func expire(_ move, s state) []state {
	if s.is != store.Completed {
		return illegal
	}
	s.is = store.Expired
	return stay(s)
}

func forget(_ move, s state) []state {
	if s.is == store.Completed {
		return illegal
	}
	return stay(s)
}

// audit compares the effects with the state: one effect if the command was carried out, none if it was refused or the key is
// free, at most one if the outcome is unknown or an operator has decided.
func audit(m move, s state) []state {
	provider, most := 1, m.provider // the provider is charged before the booking
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
	case store.Completed, store.Expired:
		switch {
		case s.answer == "": // nobody has seen the answer, so it may be a refusal
			legal = none || once
		case strings.HasPrefix(s.answer, "2"):
			legal = once
		default:
			legal = none
		}
	case store.Running, store.Unknown:
		legal = atMostOnce
	default:
		legal = none
	}
	if !legal && (!s.spent || !atMostOnce) {
		return illegal
	}
	return stay(s)
}

// isFree reports whether a key may be free: also if its handler has rolled its own transaction back.
func isFree(m move, s state) bool {
	return s.is == store.Free || s.is == store.Running && m.recovery == core.Rollback && m.enders.has(s.command)
}

// age is the moment at which the key becomes too old. tooOld is the answer to a request that finds no record after that.
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
