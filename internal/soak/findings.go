package main

import (
	"fmt"
	"io"
	"sync"
)

// wrong is a kind of finding.
type wrong string

const (
	duplicate     wrong = "duplicate"     // a command has had an effect twice
	loss          wrong = "loss"          // a client has an answer and its effect is missing, or a command never ended
	contradiction wrong = "contradiction" // an answer differs from another one, or from the effects
)

// findings has everything that is wrong.
type findings struct {
	mu     sync.Mutex
	counts map[wrong]int
	shown  []finding
}

// finding is one thing that is wrong, at one operation.
type finding struct {
	wrong     wrong
	operation string
	text      string
}

// mostShown is how many findings are printed; all are counted.
const mostShown = 20

func (f *findings) add(what wrong, operation, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = map[wrong]int{}
	}
	f.counts[what]++
	if len(f.shown) < mostShown {
		f.shown = append(f.shown, finding{what, operation, text})
	}
}

// count returns the number of findings of a kind.
func (f *findings) count(what wrong) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[what]
}

// print prints the findings, each with the rows and log lines of its operation.
func (f *findings) print(out io.Writer, evidence func(operation string) string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	printed := map[string]bool{}
	for _, found := range f.shown {
		_, _ = fmt.Fprintf(out, "\n%s: operation %s: %s\n", found.wrong, found.operation, found.text)
		if !printed[found.operation] {
			printed[found.operation] = true
			_, _ = fmt.Fprint(out, evidence(found.operation))
		}
	}
}
