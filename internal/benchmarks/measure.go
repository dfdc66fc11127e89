package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/auth19/idem/internal/benchmarks/report"
)

// side is one of the ways to do a job. Sides are compared with each other.
type side struct {
	name string
	// start makes ready for one turn and is not timed. send does the job once, for any number of clients at once.
	start func() (send func() error, err error)
}

// always is a side that needs no preparation.
func always(name string, send func() error) side {
	return side{name: name, start: func() (func() error, error) { return send, nil }}
}

// turn is what a side did while it was its turn.
type turn struct {
	jobs    int
	took    time.Duration
	mallocs uint64

	app, server time.Duration // of the processor; 0 where it is not known
}

// meter compares sides. They take turns, so that a disk that gets slower, or a busy neighbour of the machine, slows all
// sides alike.
type meter struct {
	duration time.Duration // of all turns of one side together
	rounds   int           // how many turns each side has
	warmUp   time.Duration // a turn of each side before, which does not count; 0: none
	// postmaster is the process of the PostgreSQL server whose processor time is measured too; 0: none
	postmaster int
	progress   func(format string, args ...any)
}

// compare lets the sides take turns, each with that many clients.
func (m meter) compare(clients int, sides ...side) ([]measured, error) {
	results := make([]measured, len(sides))
	for i, s := range sides {
		results[i].name = s.name
		if m.warmUp == 0 {
			continue
		}
		if _, err := m.take(s, clients, m.warmUp); err != nil {
			return nil, err
		}
	}
	for round := range m.rounds {
		for i := range sides {
			at := (i + round) % len(sides) // none is always the one after the same other
			t, err := m.take(sides[at], clients, m.duration/time.Duration(m.rounds))
			if err != nil {
				return nil, err
			}
			results[at].turns = append(results[at].turns, t)
		}
	}
	for _, r := range results {
		m.progress("    %-44s %10.0f /s\n", r.name, r.rate())
	}
	return results, nil
}

// take gives a side its turn.
func (m meter) take(s side, clients int, d time.Duration) (t turn, err error) {
	send, err := s.start()
	if err != nil {
		return turn{}, fmt.Errorf("%s: %w", s.name, err)
	}
	runtime.GC() // the garbage of the side before is not this one's
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	jobs, errs := make([]int, clients), make([]error, clients)
	spent := processorNow(m.postmaster)
	begun := time.Now()
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for time.Since(begun) < d || jobs[client] == 0 {
				if err := send(); err != nil {
					errs[client] = err
					return
				}
				jobs[client]++
			}
		})
	}
	wg.Wait()
	t.took = time.Since(begun)

	t.app, t.server = processorNow(m.postmaster).since(spent)
	runtime.ReadMemStats(&after)
	t.mallocs = after.Mallocs - before.Mallocs
	for _, n := range jobs {
		t.jobs += n
	}
	if err := errors.Join(errs...); err != nil {
		return turn{}, fmt.Errorf("%s: %w", s.name, err)
	}
	return t, nil
}

// measured is what one side did in all its turns.
type measured struct {
	name  string
	turns []turn
}

func (m measured) total() (t turn) {
	for _, one := range m.turns {
		t.jobs += one.jobs
		t.took += one.took
		t.mallocs += one.mallocs
		t.app += one.app
		t.server += one.server
	}
	return t
}

// rate is jobs per second.
func (m measured) rate() float64 {
	t := m.total()
	return float64(t.jobs) / t.took.Seconds()
}

// each is the time between two jobs: with one client, what a job takes.
func (m measured) each() time.Duration {
	t := m.total()
	return t.took / time.Duration(t.jobs)
}

// mallocs is how many allocations a job makes.
func (m measured) mallocs() float64 {
	t := m.total()
	return float64(t.mallocs) / float64(t.jobs)
}

// ratioOf returns the throughput of one side divided by that of another.
func ratioOf(m, to measured) report.Ratio {
	return report.RatioOf(m.rate(), to.rate(), m.rates(), to.rates())
}

// rates is jobs per second in each turn.
func (m measured) rates() (all []float64) {
	for _, t := range m.turns {
		all = append(all, float64(t.jobs)/t.took.Seconds())
	}
	return all
}
