package crashtest

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/auth19/idem/core/wire"
)

// outcome is what was seen at a point.
type outcome struct {
	point
	events      []string // up to the crash
	answers     []answer // whole ones
	final       answer
	effectsThen Effects // after the crash, before any repeat
	effects     Effects // in the end
	executions  int     // 0 where they were not counted
	wrong       []string
	log         string // of the app, where it did not do what it should
}

// judge says what is wrong with the outcome.
func (o *outcome) judge(e *enumeration) {
	bad := func(format string, args ...any) { o.wrong = append(o.wrong, fmt.Sprintf(format, args...)) }

	// Effects. If the outcome is unknown, they may exist or not.
	for _, name := range slices.Sorted(maps.Keys(e.effects)) {
		is, want := o.effects[name], e.effects[name]
		switch {
		case is > want:
			bad("the effect %q is there %d times, and should be %d times", name, is, want)
		case is < want && o.final.definite():
			bad("the effect %q is lost: it is there %d times, and should be %d times", name, is, want)
		}
		if then := o.effectsThen[name]; then > is {
			bad("the effect %q was there %d times after the crash, and is there %d times in the end", name, then, is)
		}
	}

	// Answers.
	var first *answer
	created := 0
	for i, a := range o.answers {
		if a.err == nil && a.result() == wire.ResultCreated {
			created++
		}
		switch {
		case !a.final():
		case first != nil && first.definite() && !first.same(a):
			bad("the answer %v contradicts the answer %v before:\n%s\n%s", a, *first, a.body, first.body)
		case a.definite() && a.status != e.expected.status:
			bad("the answer is %v, and %v without a crash\n%s", a, e.expected, a.body)
		default:
			first = &o.answers[i] // what was unknown may become known
		}
	}
	if created > 1 {
		bad("%d answers claim to be the first (%s: %s)", created, wire.HeaderResult, wire.ResultCreated)
	}
	if last := o.answers[len(o.answers)-1]; !last.final() {
		bad("a repeat of the final answer %v got %v", o.final, last)
	}
	if !o.final.definite() && !e.scenario.Unknown {
		bad("the final answer is %v: set Scenario.Unknown if that is legal for this route", o.final)
	}
}

// empty reports whether there are no effects.
func (e Effects) empty() bool {
	for _, count := range e {
		if count > 0 {
			return false
		}
	}
	return true
}

// String is for the report: "ledger 1, provider 1".
func (e Effects) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(e)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, e[name]))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// summary lists the answers in their order. Equal answers in a row count as one.
func (o outcome) summary() string {
	var parts []string
	for i := 0; i < len(o.answers); {
		n := 1
		for i+n < len(o.answers) && o.answers[i+n].String() == o.answers[i].String() {
			n++
		}
		part := o.answers[i].String()
		if n > 1 {
			part += fmt.Sprintf(" (%d times)", n)
		}
		parts = append(parts, part)
		i += n
	}
	return strings.Join(parts, ", ")
}

func (o outcome) ran() string {
	if o.executions == 0 {
		return "-"
	}
	return fmt.Sprint(o.executions)
}

// String is for a failure.
func (o outcome) String() string {
	text := fmt.Sprintf("  answers: %s\n  executions: %s\n  effects: %v after the crash, %v in the end", o.summary(), o.ran(),
		o.effectsThen, o.effects)
	if o.log != "" {
		text += "\n  the app says:\n" + o.log
	}
	return text
}

func (e *enumeration) report(o outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, o)
}

// table is what was seen at all points.
func (e *enumeration) table() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	slices.SortFunc(e.seen[1:], func(a, b outcome) int { return cmp.Compare(a.name, b.name) })
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "\npoint\tanswers\texecutions\teffects after the crash\tin the end\n")
	for _, o := range e.seen {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%v\t%v\n", o.name, o.summary(), o.ran(), o.effectsThen, o.effects)
	}
	_ = table.Flush()
	return text.String()
}

// alone is the pattern that runs one subtest.
func alone(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}
