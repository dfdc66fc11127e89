// Package generator makes handlers at random, breaks what they stand on turn by turn (internal/pgproxy), counts their
// effects and compares every word that a client was told. It uses the library's public door only, but for the columns by
// which time passes. A run is one key: a handler of a few actions, and clients that repeat. Handler and faults come from a
// seed and the number of the run; how instances and clients meet does not.
package generator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/auth19/idem/core"
)

// verb is what an action does.
type verb string

const (
	row        verb = "row"        // a row; in Resume as a step
	failing    verb = "broken"     // a statement that fails; in Resume in a step
	message    verb = "message"    // a row of a message that joins the attempt
	call       verb = "call"       // of the provider, which recognises a repeated key
	once       verb = "once"       // a call without Dedup
	optional   verb = "optional"   // a call without which the operation may end
	checkpoint verb = "checkpoint" // core.Checkpoint
	keepRows   verb = "keeprows"   // core.KeepRows
	failed     verb = "failed"     // core.Failed
	refuse     verb = "refuse"     // core.NotApplied, and 409
	panics     verb = "panic"
	pause      verb = "pause"
)

// action is one of a handler's.
type action struct {
	verb
	name    string
	fails   int  // it fails, or happens, in so many executions of the handler, and not in later ones
	swallow bool // the handler ignores its error
	mute    bool // a call that fails is made all the same: its answer is lost
	slow    bool // a call or a pause takes its time
}

// program is a handler.
type program struct {
	recovery core.Recovery
	actions  []action
	status   int
}

// breaks reports that one of its statements fails: from then on its transaction holds the key no more, and writes nothing.
func (p *program) breaks() bool {
	return slices.ContainsFunc(p.actions, func(a action) bool { return a.verb == failing })
}

// newProgram makes a handler at random.
func newProgram(r *rand.Rand) *program {
	p := &program{recovery: []core.Recovery{core.Rollback, core.Resume, core.Resume, core.Park}[r.IntN(4)],
		status: []int{200, 201, 201, 201, 201, 201, 303, 400, 402, 409, 422, 429, 500}[r.IntN(13)]}
	verbs := map[core.Recovery][]verb{
		core.Rollback: {row, row, row, message, failing, keepRows, failed, refuse, panics, pause},
		core.Resume: {row, row, row, row, call, call, call, once, once, optional, checkpoint, message, failing, keepRows, failed,
			refuse, panics, pause},
		core.Park: {call, call, failed, panics, pause},
	}[p.recovery]
	for i := range 1 + r.IntN(6) {
		a := action{verb: verbs[r.IntN(len(verbs))], name: string(rune('a' + i)), slow: r.IntN(3) == 0}
		switch a.verb {
		case call, once, optional:
			a.fails, a.mute, a.swallow = max(0, r.IntN(4)-1), r.IntN(2) == 0, r.IntN(3) == 0
		case failing, failed, refuse, panics:
			a.fails, a.swallow = 1+r.IntN(2), r.IntN(2) == 0
		}
		p.actions = append(p.actions, a)
	}
	if p.recovery == core.Park && r.IntN(4) == 0 { // behind a call it would not be true
		p.actions = append([]action{{verb: refuse, name: "first", fails: 1 + r.IntN(2)}}, p.actions...)
	}
	return p
}

// String is the handler in one line.
func (p *program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v:", p.recovery)
	for _, a := range p.actions {
		fmt.Fprintf(&b, " %s %s", a.verb, a.name)
		if a.slow && slices.Contains([]verb{call, once, optional, pause}, a.verb) {
			b.WriteString(" (slow)")
		}
		if a.fails > 0 {
			fmt.Fprintf(&b, " (fails %d", a.fails)
			if a.mute {
				b.WriteString(", made")
			}
			if a.swallow {
				b.WriteString(", ignored")
			}
			b.WriteString(")")
		}
		b.WriteString(";")
	}
	fmt.Fprintf(&b, " %d", p.status)
	return b.String()
}
