package main

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/harness"
)

// end is what clients know about the end of an intent.
type end uint8

const (
	open    end = iota // nothing certain
	known              // there is a recorded answer
	unknown            // outcome_unknown; an owner that wakes up late may still record an answer
)

// memory is what clients were told about an intent.
type memory struct {
	end    end
	status int16
	answer [16]byte // part of a hash of everything that must be equal in a replay
}

// told remembers what clients were told about each intent.
type told struct {
	mu      sync.Mutex
	intents []memory
}

// begin makes room for one more intent, and returns its number.
func (t *told) begin() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.intents = append(t.intents, memory{})
	return len(t.intents) - 1
}

// begun returns the number of intents.
func (t *told) begun() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.intents)
}

// of returns what clients were told about an intent so far.
func (t *told) of(n int) memory {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.intents[n]
}

type answer = harness.Answer

// hash returns a hash of everything that must be equal in a replay.
func hash(a answer) [16]byte {
	sum := sha256.Sum256([]byte(fmt.Sprint(a.Status, "\n", a.Location, "\n", a.Body)))
	return [16]byte(sum[:16])
}

// hear records an answer, and returns how it contradicts the contract or an earlier answer, "" if it does not. before is
// what was known when the request was sent. own says whether the request had the intent's own command.
func (t *told) hear(before memory, i intent, own bool, a answer) (contradiction string) {
	switch {
	case a.Status >= 500: // no answer that was recorded
		return ""
	case !own:
		if a.Code != core.CodeKeyReused {
			return "another command got it" // M-1
		}
		return ""
	case a.Recorded():
		return t.record(before, i, a)
	}
	switch a.Code {
	case core.CodeInFlight: // M-2
		if before.end != open && !i.EndsItself() { // their keys may be free while they run
			return "the command had come to an end before"
		}
	case core.CodeOutcomeUnknown: // M-4
		if !i.MayBeUnknown() {
			return "a Rollback handler leaves no doubt"
		}
		if before.end == known {
			return "the outcome was known before"
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.intents[i.N].end == open {
			t.intents[i.N].end = unknown
		}
	default:
		return "nobody expects it"
	}
	return ""
}

// record notes a recorded answer (M-3).
func (t *told) record(before memory, i intent, a answer) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	there := &t.intents[i.N]
	switch {
	case i.EndsItself():
		return "its handler has ended its own transaction"
	case a.Status != i.Status(), a.Status < 300 && !strings.Contains(a.Body, `"amount":"`+i.Amount+`"`):
		return "it is no answer to the command"
	case before.end == known && a.Result == core.ResultCreated:
		return "the command had been carried out before"
	case there.end == known && there.answer != hash(a):
		return "another answer was given before"
	}
	*there = memory{end: known, status: int16(a.Status), answer: hash(a)}
	return ""
}
