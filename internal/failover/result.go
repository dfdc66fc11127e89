//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// result is what came out of a run.
type result struct {
	options options
	date    time.Time

	intents, acknowledged int
	unanswered            []error // one for each intent without an answer
	attempts, replays     int64   // before the repeats at the end
	failovers, paused     int     // all, and those whose standbys were cut off before
	outage                time.Duration

	first  counts // when the load had ended
	others int    // repeats that got another answer than before
	second counts // after all acknowledged commands were repeated
}

// print prints the table.
func (r result) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, value any) { _, _ = fmt.Fprintf(table, "%s\t%v\t\n", name, value) }
	_, _ = fmt.Fprintf(out, "\n%s  %v\n\n", r.date.Format(time.DateOnly), r.options)
	row("intents", r.intents)
	row("acknowledged", r.acknowledged)
	row("attempts", r.attempts)
	row("replays", r.replays)
	row("failovers", r.failovers)
	row("with standbys cut off before", r.paused)
	row("longest time without an answer", r.outage.Round(100*time.Millisecond))
	row("ledger entries", r.first.entries)
	row("doubled", r.first.doubled)
	row("acknowledged, and lost", r.first.lost)
	row("provider's entries", r.first.charges)
	row("doubled there", r.first.overpaid)
	row("there, and not in the ledger", r.first.unbooked)
	row("all repeated: another answer", r.others)
	row("then: ledger entries", r.second.entries)
	row("doubled, here or there", r.second.doubled+r.second.overpaid)
	row("lost", r.second.lost)
	return table.Flush()
}

// verdict returns an error that names everything that is wrong. With asynchronous replication commands may be lost, but not
// doubled, and a repeat books each of them again (F-2).
func (r result) verdict() error {
	var errs []error
	never := func(n int, what string) {
		if n > 0 {
			errs = append(errs, fmt.Errorf("%d %s", n, what))
		}
	}
	for i, c := range []counts{r.first, r.second} {
		when := []string{"", " after the repeats"}[i]
		never(c.doubled, "commands were booked more than once"+when)
		never(c.overpaid, "refunds were paid more than once"+when)
		never(c.stray, "entries belong to no command"+when)
	}
	never(len(r.unanswered), "commands were not answered")
	never(r.second.lost, "commands were lost, and their repeats have not booked them")
	if r.options.mode == modeSync {
		never(r.first.lost, "acknowledged commands were lost")
		never(r.first.unbooked, "refunds were paid, and not booked")
		never(r.others, "repeats got another answer")
	}
	return errors.Join(append(errs, r.unanswered[:min(3, len(r.unanswered))]...)...)
}
