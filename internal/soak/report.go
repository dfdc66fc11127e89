package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/auth19/idem/internal/harness"
)

// report counts the effects and prints the table. The error says that something is wrong.
func (s *soak) report(out io.Writer) error {
	if err := s.audit(s.t.Context()); err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, value any) { _, _ = fmt.Fprintf(table, "%s\t%v\t\n", name, value) }
	row("requests", s.wire.requests.Load())
	row("whole answers", s.wire.answers.Load())
	row("intents", s.told.begun())
	ends := s.ends()
	for _, end := range []string{"carried out", "refused", "unknown", "undone every time"} {
		row(end, ends[end])
	}
	row("given up by a client, and repeated later", s.gaveUp.Load())
	row("", "")
	for _, name := range slices.Sorted(maps.Keys(s.nemesis.Struck)) {
		row(name, s.nemesis.Struck[name])
	}
	front, back := harness.Connections(s.instances)
	row("clients' connections cut", front.Cut)
	row("clients' connections doubled", front.Doubled)
	row("database connections cut", back.Cut)
	row("clients' connections that passed nothing any more", front.Silenced)
	row("database connections that passed nothing any more", back.Silenced)
	row("clients that hung up", s.wire.hungUp.Load())
	row("refunds that were parked and settled", s.settled.Load())
	counts := s.odd()
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		row(name, counts[name])
	}
	row("", "")
	for _, what := range []wrong{duplicate, loss, contradiction} {
		row(plural[what], s.findings.count(what))
	}
	row("", "")
	row("first answers, p50 / p99", percentiles(s.wire.first))
	row("repeated answers, p50 / p99", percentiles(s.wire.repeated))
	for i, in := range s.instances {
		row("memory of "+in.Name+" at start / end", mebibytes(s.atStart[i])+" / "+mebibytes(in.Memory()))
	}
	row("time with faults", s.took.Round(time.Second))
	if err := table.Flush(); err != nil {
		return err
	}
	return s.verdict(out)
}

var plural = map[wrong]string{duplicate: "duplicates", loss: "losses", contradiction: "contradictions"}

// verdict prints what is wrong and returns an error, or returns nil.
func (s *soak) verdict(out io.Writer) error {
	d, l, c := s.findings.count(duplicate), s.findings.count(loss), s.findings.count(contradiction)
	if d+l+c == 0 {
		return nil
	}
	s.findings.print(out, s.evidence)
	return fmt.Errorf("seed %d: %d duplicates, %d losses, %d contradictions", s.seed, d, l, c)
}

// ends counts how the intents ended, by the answers of clients.
func (s *soak) ends() map[string]int {
	ends := map[string]int{}
	for n := range s.told.begun() {
		switch m := s.told.of(n); {
		case m.end == unknown:
			ends["unknown"]++
		case m.end == known && m.status < 300:
			ends["carried out"]++
		case m.end == known:
			ends["refused"]++
		case s.intent(n).NeverEnds():
			ends["undone every time"]++
		}
	}
	return ends
}

// odd counts the intents with handlers that misbehave.
func (s *soak) odd() map[string]int {
	counts := map[string]int{}
	for n := range s.told.begun() {
		if which := n % s.oddEvery(); which < len(odd) {
			counts[odd[which].is]++
		}
	}
	return counts
}

// mebibytes returns "-" if the size is not known.
func mebibytes(n float64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f MiB", n)
}

// percentiles returns the 50th and the 99th percentile.
func percentiles(times []time.Duration) string {
	if len(times) == 0 {
		return "-"
	}
	slices.Sort(times)
	p := func(share float64) time.Duration {
		return times[int(share*float64(len(times)-1))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("%v / %v", p(0.5), p(0.99))
}
