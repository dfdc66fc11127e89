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
//   - a request without an answer, or with one that leaves open what happened (a connection that was cut, 503), has
//     both moves too, but each may have happened or not, and at any time from the call on: such an operation returns at
//     infinity. The recorded answer, which its client never saw, is learned from the first replay.

// state is the state of a key.
type state struct {
	is      core.State
	command string
	owner   int    // the operation whose attempt this is, or was
	answer  string // of Completed and Expired: "" where nobody has seen it yet
}

// text is for drawings.
func (s state) text() string {
	switch s.is {
	case core.Running, core.Unknown:
		return fmt.Sprintf("%v: %s by #%d", s.is, s.command, s.owner)
	case core.Completed:
		answer := s.answer
		if answer == "" {
			answer = "?"
		}
		return fmt.Sprintf("completed: %s by #%d -> %s", s.command, s.owner, answer)
	case core.Expired:
		return "expired: " + s.command
	}
	return s.is.String()
}

// move is a step of the model.
type move struct {
	step     func(m move, s state) []state
	words    string
	op       int
	command  string
	recovery core.Recovery
	maybe    bool         // it may not have happened
	ends     []core.State // of an end: what may have become of the attempt; Running: it can go on
	answer   string
	ledger   int
	provider int
}

// text is for drawings.
func (m move) text() string {
	words := m.words
	if m.maybe {
		words += ", perhaps"
	}
	return fmt.Sprintf("#%d %s %s %.60s", m.op, words, m.command, m.answer)
}

// model is the model of one key; a history is taken apart by keys before.
var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{is: core.Free}} },
	Step: func(s, input, _ any) (next []any) {
		m := input.(move)
		for _, to := range m.step(m, s.(state)) {
			next = append(next, to)
		}
		if m.maybe && !slices.Contains(next, s) {
			next = append(next, s)
		}
		return next
	},
	Hash: func(s any) uint64 {
		h := uint64(s.(state).is)
		for _, c := range s.(state).command + s.(state).answer {
			h = h*31 + uint64(c)
		}
		return h*31 + uint64(s.(state).owner)
	},
	DescribeOperation: func(input, _ any) string { return input.(move).text() },
	DescribeState: func(s any) string {
		if states, ok := s.([]any); ok {
			var texts []string
			for _, one := range states {
				texts = append(texts, one.(state).text())
			}
			return strings.Join(texts, " | ")
		}
		return fmt.Sprint(s)
	},
}).ToModel()

var illegal []state

func stay(s state) []state { return []state{s} }

// claim begins an attempt: where the key is free, or where a Resume attempt of the same command can be gone on with.
// Whether the lease of that one has run out is not asked: what must not happen, a second effect, shows in the audit.
func claim(m move, s state) []state {
	resumes := s.is == core.Running && m.recovery == core.Resume && s.command == m.command
	if s.is != core.Free && !resumes {
		return illegal
	}
	return []state{{is: core.Running, command: m.command, owner: m.op}}
}

// end ends the attempt that the operation has begun, unless another has taken it over. An attempt whose lease had run
// out, so that it counted as unknown, may still complete.
func end(m move, s state) (next []state) {
	if s.owner != m.op || s.is != core.Running && s.is != core.Unknown {
		return illegal
	}
	for _, is := range m.ends {
		switch {
		case is == core.Completed:
			next = append(next, state{is: core.Completed, command: s.command, owner: s.owner, answer: m.answer})
		case s.is == core.Running && is == core.Free:
			next = append(next, state{is: core.Free})
		case s.is == core.Running:
			next = append(next, state{is: is, command: s.command, owner: s.owner})
		case is == core.Unknown:
			next = append(next, s)
		}
	}
	return next
}

// replay is the recorded answer, byte for byte (M-3).
func replay(m move, s state) []state {
	if s.is != core.Completed || s.command != m.command || s.answer != "" && s.answer != m.answer {
		return illegal
	}
	s.answer = m.answer
	return stay(s)
}

// busy is a refusal because an attempt is running (M-2). In Rollback nobody else sees of which command.
func busy(m move, s state) []state {
	if s.is != core.Running || s.command != m.command && m.recovery != core.Rollback {
		return illegal
	}
	return stay(s)
}

// mismatch is a refusal because the key belongs to another command (M-1).
func mismatch(m move, s state) []state {
	if s.is == core.Free || s.command == m.command || s.is == core.Running && m.recovery == core.Rollback {
		return illegal
	}
	return stay(s)
}

// unknown is a refusal because nobody knows what became of the attempt (M-4). In Park it comes of itself when the lease
// of an attempt runs out; in Rollback never.
func unknown(m move, s state) []state {
	switch {
	case m.recovery == core.Rollback || s.command != m.command:
		return illegal
	case s.is == core.Unknown:
		return stay(s)
	case s.is == core.Running && m.recovery == core.Park:
		s.is = core.Unknown
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
// the key is free, at most once where nobody knows.
func audit(m move, s state) []state {
	provider := 0
	if m.recovery != core.Rollback {
		provider = 1
	}
	var legal bool
	switch s.is {
	case core.Completed, core.Expired:
		switch {
		case s.answer == "": // nobody has seen whether it was refused
			legal = m.ledger == 0 && m.provider == 0 || m.ledger == 1 && m.provider == provider
		case strings.HasPrefix(s.answer, "2"):
			legal = m.ledger == 1 && m.provider == provider
		default:
			legal = m.ledger == 0 && m.provider == 0
		}
	case core.Running, core.Unknown:
		legal = m.ledger <= m.provider && m.provider <= provider
	default:
		legal = m.ledger == 0 && m.provider == 0
	}
	if !legal {
		return illegal
	}
	return stay(s)
}

// never is what no state allows.
func never(move, state) []state { return illegal }
