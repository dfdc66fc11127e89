package histories

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/internal/harness"
)

// count is the check of a long run. It compares each answer with what clients were told before, and in the end all effects
// with the answers. Of each intent it remembers only a few bytes.
type count struct {
	mu         sync.Mutex
	told       []memory // by number of the intent
	suspicions []suspicion
	wrongs     map[wrong]int
	shown      []finding // the first ones
}

// memory is what clients were told about an intent.
type memory struct {
	end    ending
	status int16
	answer [16]byte // part of a hash of everything that must be equal in a replay
}

// ending is what clients know about the end of an intent.
type ending uint8

const (
	endOpen    ending = iota // nothing certain
	endKnown                 // there is a recorded answer
	endUnknown               // outcome_unknown; an owner that wakes up late may still record an answer
)

// suspicion is an in_flight after an outcome_unknown. It is right only if the owner of the unknown attempt has freed the
// key.
type suspicion struct {
	intent intent
	text   string
}

// wrong is a kind of finding.
type wrong string

const (
	duplicate     wrong = "duplicates"     // a command has had an effect twice
	loss          wrong = "losses"         // a client has an answer and its effect is missing, or a command never ended
	contradiction wrong = "contradictions" // an answer differs from another one, or from the effects
)

// finding is one thing that is wrong, at one operation.
type finding struct {
	wrong           wrong
	operation, text string
}

// mostShown is how many findings are printed; all are counted.
const mostShown = 20

// add adds a finding.
func (c *count) add(what wrong, operation, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wrongs == nil {
		c.wrongs = map[wrong]int{}
	}
	c.wrongs[what]++
	if len(c.shown) < mostShown {
		c.shown = append(c.shown, finding{what, operation, fmt.Sprintf(format, args...)})
	}
}

// begin makes room for one more intent, and returns its number.
func (c *count) begin() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, memory{})
	return len(c.told) - 1
}

// begun returns the number of intents.
func (c *count) begun() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.told)
}

// of returns what clients were told about an intent so far.
func (c *count) of(n int) memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told[n]
}

// record implements [check]: it compares the answer to a request with the earlier ones.
func (c *count) record(i intent, o Op, do func(o *Op)) Op {
	if o.Kind != Request {
		do(&o)
		return o
	}
	before := c.of(i.n)
	do(&o)
	if a := o.Answer; a != nil {
		own := o.Command == i.command(false)
		if what := c.hear(before, i, own, *a); what != "" {
			text := fmt.Sprintf("%v (its own command: %v) got %d %s %s: %s", i, own, a.Status, a.Result, a.Body, what)
			if what == unlessFreed {
				c.mu.Lock()
				c.suspicions = append(c.suspicions, suspicion{i, text})
				c.mu.Unlock()
			} else {
				c.add(contradiction, i.operation(), "%s", text)
			}
		}
	}
	return o
}

// hear notes an answer, and returns how it contradicts the contract or an earlier answer, "" if it does not. before is what
// was known when the request was sent. own says whether the request had the intent's own command.
func (c *count) hear(before memory, i intent, own bool, a Answer) (contradiction string) {
	switch {
	case a.Status >= 500: // no answer that was recorded
		return ""
	case !own:
		if a.Code != core.CodeKeyReused {
			return "another command got it" // M-1
		}
		return ""
	case a.recorded():
		return c.hearRecorded(before, i, a)
	}
	switch a.Code {
	case core.CodeInFlight: // M-2
		switch {
		case before.end == endOpen, i.endsItself(): // their keys may be free while they run
		case before.end == endUnknown && i.kind == harness.Payout:
			return unlessFreed
		default:
			return "the command had come to an end before"
		}
	case core.CodeOutcomeUnknown: // M-4
		if !i.mayBeUnknown() {
			return "a Rollback handler leaves no doubt"
		}
		if before.end == endKnown {
			return "the outcome was known before"
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.told[i.n].end == endOpen {
			c.told[i.n].end = endUnknown
		}
	default:
		return "nobody expects it"
	}
	return ""
}

// unlessFreed is a contradiction unless the attempt itself has said that it has freed the key: an owner that wakes up late
// may prove that nothing was applied.
const unlessFreed = "the outcome was unknown before, and its owner has not freed the key"

// resolve finds the suspicions that no attempt's word explains.
func (c *count) resolve(freed func(operation string) bool) {
	c.mu.Lock()
	suspicions := c.suspicions
	c.mu.Unlock()
	for _, d := range suspicions {
		if !freed(d.intent.operation()) {
			c.add(contradiction, d.intent.operation(), "%s", d.text)
		}
	}
}

// hearRecorded notes a recorded answer (M-3).
func (c *count) hearRecorded(before memory, i intent, a Answer) (contradiction string) {
	sum := sha256.Sum256([]byte(fmt.Sprint(a.Status, "\n", a.header.Get("Location"), "\n", a.Body)))
	now := memory{endKnown, int16(a.Status), [16]byte(sum[:16])}
	c.mu.Lock()
	defer c.mu.Unlock()
	there := &c.told[i.n]
	switch {
	case i.endsItself():
		return "its handler has ended its own transaction"
	case a.Status != i.status(), a.Status < 300 && !strings.Contains(a.Body, `"amount":"`+i.amount+`"`):
		return "it is no answer to the command"
	case before.end == endKnown && a.Result == wire.ResultCreated:
		return "the command had been carried out before"
	case there.end == endKnown && *there != now:
		return "another answer was given before"
	}
	*there = now
	return ""
}

// audit compares the answers that clients got with the effects.
func (c *count) audit(ctx context.Context, cs *clients) error {
	all, err := cs.world.effects(ctx)
	if err != nil {
		return err
	}
	for n := range cs.refunds {
		delete(all, cs.preparation(n).operation())
	}
	for n := range c.begun() {
		i := cs.intent(n)
		e := all[i.operation()]
		if e == nil {
			e = &effects{}
		}
		delete(all, i.operation())
		for what, text := range e.judge(i, c.of(n).end) {
			c.add(what, i.operation(), "%v: %s", i, text)
		}
	}
	c.resolve(cs.world.freed)
	for operation, e := range all {
		c.add(duplicate, operation, "nobody has asked for it: %+v", *e)
	}
	return nil
}

// tables has the table of each kind's rows.
var tables = map[harness.Kind]string{harness.Payment: "payments", harness.Refund: "refunds", harness.Payout: "payouts"}

// judge returns what is wrong with the effects of an intent. A row counts once for each transaction that tried to insert it.
func (e effects) judge(i intent, end ending) map[wrong]string {
	found := map[wrong]string{}
	runs, booked := e.carriedOut[tables[i.kind]], e.carriedOut["ledger"]
	text := fmt.Sprintf("carried out %d times, booked %d times, in the ledger: %v; charged %d times, in %d calls", runs, booked,
		e.entries, e.charges, e.calls)

	mostCharges := 1
	if i.kind == harness.Payment {
		mostCharges = 0
	}
	if i.endsItself() { // a repeat may insert its rows again after its key became free; one row stays
		runs, booked = min(runs, 1), min(booked, 1)
	}
	if runs > 1 || booked > 1 || len(e.entries) > 1 || e.charges > mostCharges || i.kind == harness.Payout && e.calls > 1 {
		found[duplicate] = text
	}
	if slices.ContainsFunc(e.entries, func(entry string) bool { return entry != string(i.kind)+" "+i.amount }) {
		found[contradiction] = "something else was booked: " + text
	}
	switch {
	case i.neverEnds():
		if runs+booked+len(e.entries)+e.charges > 0 {
			found[contradiction] = "undone every time: " + text
		}
	case end == endOpen:
		found[loss] = "came to no end: " + text
	case end == endUnknown: // the provider is charged before the booking
		if len(e.entries) > e.charges && !i.endsItself() {
			found[contradiction] = "booked without a charge: " + text
		}
	case i.isStuck(): // as the operator settled it: charged by the provider, and not booked
		if e.charges != 1 || len(e.entries) > 0 {
			found[contradiction] = "settled: " + text
		}
	case i.method == "pm_declined":
		if len(e.entries)+e.charges > 0 {
			found[contradiction] = "refused: " + text
		}
	case runs == 0 || booked == 0 || len(e.entries) == 0 || e.charges < mostCharges:
		found[loss] = text
	}
	return found
}
