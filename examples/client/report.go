package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/auth19/idem/internal/cutproxy"
)

// report prints the table. It returns an error if an intent was not booked exactly once at the app, or not booked here.
func report(out io.Writer, intents []purchase, entries map[string]int, p *payer, stats cutproxy.Stats) error {
	total, wrong := 0, 0
	for _, n := range entries {
		total += n
	}
	booked := 0
	for _, intent := range intents {
		if entries[intent.Order] != 1 || !intent.Paid {
			wrong++
		}
		if intent.Paid {
			booked++
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range []struct {
		name  string
		value int
	}{
		{"intents", len(intents)}, {"attempts", int(p.attempts.Load())}, {"replays", int(p.replays.Load())},
		{"connections cut", stats.Cut}, {"ledger entries", total}, {"booked here", booked},
	} {
		_, _ = fmt.Fprintf(table, "%s\t%d\t\n", row.name, row.value)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if wrong > 0 || total != len(intents) {
		return fmt.Errorf("%d intents, %d ledger entries; %d intents were not booked once", len(intents), total, wrong)
	}
	return nil
}
