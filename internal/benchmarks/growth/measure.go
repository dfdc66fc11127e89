package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// measured is what clients did in their turns.
type measured struct {
	took    time.Duration
	turns   [][]time.Duration // how long each job took, ascending in each turn
	written int64             // WAL of the server in turns that count it, in bytes
	pages   int64             // of these, full pages
}

// take gives clients a turn: each does the job again and again, at least once. With a pace, of so many jobs per second
// of all clients together, a job's time begins when it is due, so that a stall counts for all jobs that wait for it.
func (m *measured) take(ctx context.Context, d *database, clients, pace int, length time.Duration, do job) error {
	latencies, errs := make([][]time.Duration, clients), make([]error, clients)
	begun := time.Now()
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			due := begun
			var every time.Duration
			if pace > 0 {
				every = time.Duration(clients) * time.Second / time.Duration(pace)
				due = begun.Add(every * time.Duration(client) / time.Duration(clients))
			}
			for errs[client] == nil && (time.Since(begun) < length || len(latencies[client]) == 0) {
				if every == 0 {
					due = time.Now()
				}
				if !wait(ctx, due) {
					errs[client] = context.Cause(ctx)
					return
				}
				errs[client] = do(ctx, d)
				latencies[client] = append(latencies[client], time.Since(due))
				due = due.Add(every)
			}
		})
	}
	wg.Wait()
	took := time.Since(begun)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	turn := slices.Concat(latencies...)
	slices.Sort(turn)
	m.took += took
	m.turns = append(m.turns, turn)
	return nil
}

// takeAndAdd is take for a job that adds records. The turn begins after a checkpoint, and the WAL that it writes is
// counted.
func (m *measured) takeAndAdd(ctx context.Context, d *database, clients int, length time.Duration, do job) error {
	if err := d.settle(ctx); err != nil {
		return err
	}
	since, err := d.position(ctx)
	if err != nil {
		return err
	}
	if err := m.take(ctx, d, clients, 0, length, do); err != nil {
		return err
	}
	written, pages, err := d.written(ctx, since)
	m.written += written
	m.pages += pages
	return err
}

// wait returns when it is time, or false if ctx ends before.
func wait(ctx context.Context, until time.Time) bool {
	pause := time.Until(until)
	if pause <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// jobs is how many jobs were done.
func (m *measured) jobs() (jobs int) {
	for _, turn := range m.turns {
		jobs += len(turn)
	}
	return jobs
}

// rate is jobs per second.
func (m *measured) rate() float64 { return float64(m.jobs()) / m.took.Seconds() }

// each is a part of the WAL per job, in bytes.
func (m *measured) each(bytes int64) float64 { return float64(bytes) / float64(m.jobs()) }

// percentile is the time within which that share of a turn's jobs was done, in the median turn: one stall of the disk does
// not decide.
func (m *measured) percentile(share float64) time.Duration {
	each := make([]time.Duration, len(m.turns))
	for i, turn := range m.turns {
		each[i] = turn[min(int(share*float64(len(turn))), len(turn)-1)]
	}
	slices.Sort(each)
	return each[len(each)/2]
}
