package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/auth19/idem/internal/benchmarks/report"
)

// side is one of the ways to do a job. Sides are compared with each other.
type side struct {
	variant, way string
	send         func() error // does the job once, for any number of clients at once
}

// comparison is sides that take turns, each with that many clients.
type comparison struct {
	clients int
	sides   []side
}

// turn is what a side did while it was its turn.
type turn struct {
	jobs   int
	took   time.Duration
	middle time.Duration // that long a job took, in the middle of all (p50)

	app, server time.Duration // of the processor; 0 where it is not known
}

// meter compares sides. They take turns, so that a disk that gets slower, or a busy neighbour of the machine, slows all
// sides alike.
type meter struct {
	turn     time.Duration // how long one takes
	rounds   int           // how many turns each side has
	warmUp   bool          // a turn of each side before, which does not count
	progress func(format string, args ...any)
	// postmaster is the process of the PostgreSQL server whose processor time is measured too; 0: none
	postmaster int
}

// compare lets the sides take their turns.
func (m meter) compare(c comparison) (figures, error) {
	results := make(figures, len(c.sides))
	for i, s := range c.sides {
		results[i].side = s
		if !m.warmUp {
			continue
		}
		if _, err := m.take(s, c.clients); err != nil {
			return nil, err
		}
	}
	for round := range m.rounds {
		for i := range c.sides {
			at := (i + round) % len(c.sides) // none is always the one after the same other
			t, err := m.take(c.sides[at], c.clients)
			if err != nil {
				return nil, err
			}
			results[at].turns = append(results[at].turns, t)
		}
	}
	for _, r := range results {
		t := r.total()
		m.progress("    %-30s %-62s %7.0f /s, p50 %v\n", r.variant, r.way, t.rate(), t.middle.Round(10*time.Microsecond))
	}
	return results, nil
}

// take gives a side its turn.
func (m meter) take(s side, clients int) (t turn, err error) {
	runtime.GC() // the garbage of the side before is not this one's
	jobs, errs := make([][]time.Duration, clients), make([]error, clients)
	spent := processorNow(m.postmaster)
	begun := time.Now()
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for at := time.Duration(0); at < m.turn || len(jobs[client]) == 0; {
				if err := s.send(); err != nil {
					errs[client] = err
					return
				}
				now := time.Since(begun)
				jobs[client] = append(jobs[client], now-at)
				at = now
			}
		})
	}
	wg.Wait()
	t.took = time.Since(begun)
	t.app, t.server = processorNow(m.postmaster).since(spent)
	if err := errors.Join(errs...); err != nil {
		return turn{}, fmt.Errorf("%s, %s: %w", s.variant, s.way, err)
	}
	all := slices.Concat(jobs...)
	slices.Sort(all)
	t.jobs, t.middle = len(all), all[len(all)/2]
	return t, nil
}

// measured is what one side did in all its turns.
type measured struct {
	side
	turns []turn
}

// figures are what the sides of a comparison did.
type figures []measured

// of returns one of them.
func (f figures) of(variant string, w way) measured {
	if at := f.find(variant, w); at >= 0 {
		return f[at]
	}
	panic("not measured: " + variant + ", " + w.name)
}

func (f figures) has(variant string, w way) bool { return f.find(variant, w) >= 0 }

func (f figures) find(variant string, w way) int {
	return slices.IndexFunc(f, func(m measured) bool { return m.variant == variant && m.way == w.name })
}

// keep drops all rounds but some.
func (f figures) keep(rounds []int) {
	for i := range f {
		var kept []turn
		for _, round := range rounds {
			kept = append(kept, f[i].turns[round])
		}
		f[i].turns = kept
	}
}

// total adds the turns up. Its middle is that of the middle turn.
func (m measured) total() (t turn) {
	middles := make([]time.Duration, 0, len(m.turns))
	for _, one := range m.turns {
		t.jobs += one.jobs
		t.took += one.took
		t.app += one.app
		t.server += one.server
		middles = append(middles, one.middle)
	}
	if len(middles) > 0 {
		slices.Sort(middles)
		t.middle = middles[len(middles)/2]
	}
	return t
}

// each returns a figure of each turn.
func (m measured) each(figure func(turn) float64) (all []float64) {
	for _, t := range m.turns {
		all = append(all, figure(t))
	}
	return all
}

// rate is jobs per second.
func (t turn) rate() float64 { return float64(t.jobs) / t.took.Seconds() }

// appEach is the app's processor time for a job.
func (t turn) appEach() float64 { return float64(t.app) / float64(t.jobs) }

// serverEach is PostgreSQL's processor time for a job.
func (t turn) serverEach() float64 { return float64(t.server) / float64(t.jobs) }

// ratioOf compares two sides by a figure of their turns.
func ratioOf(m, to measured, figure func(turn) float64) report.Ratio {
	return report.RatioOf(m.each(figure), to.each(figure))
}
