//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// refundEvery says which intents are refunds: every eighth. The others are payments.
const refundEvery = 8

// isRefund says what an intent is.
func isRefund(intent int) bool { return intent%refundEvery == refundEvery-1 }

// amount returns the amount of an intent. No other intent has it, so that it finds the intent in the ledger.
func amount(intent int) string { return fmt.Sprintf("%d.%02d", (intent+1)/100, (intent+1)%100) }

// tally keeps what clients were told. It is safe for use by any number of goroutines.
type tally struct {
	mu      sync.Mutex
	intents int
	answers map[int]string // the first that each intent got
	errs    []error        // of those that got none

	last   time.Time     // of the last answer
	outage time.Duration // the longest time between two answers
}

func newTally() *tally { return &tally{answers: map[int]string{}} }

// next returns a new intent.
func (t *tally) next() (intent int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.intents++
	return t.intents - 1
}

// acknowledge notes an answer.
func (t *tally) acknowledge(intent int, answer string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers[intent] = answer
	if !t.last.IsZero() {
		t.outage = max(t.outage, at.Sub(t.last))
	}
	t.last = at
}

// fail notes that an intent got no answer.
func (t *tally) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errs = append(t.errs, err)
}

// acknowledged returns the number of answers so far.
func (t *tally) acknowledged() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.answers)
}

// all returns the intents that got an answer, in order.
func (t *tally) all() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.answers))
}

// answer returns the first answer of an intent.
func (t *tally) answer(intent int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answers[intent]
}
