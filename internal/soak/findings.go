package main

import (
	"fmt"
	"io"
	"sync"
)

// wrong is what must not be.
type wrong string

const (
	duplicate     wrong = "duplicate"     // a command has had an effect twice
	loss          wrong = "loss"          // a client was told of an effect that is not there, or a command came to no end
	contradiction wrong = "contradiction" // an answer that another one, or the effects, belie
)

// findings are all that is wrong.
type findings struct {
	mu     sync.Mutex
	counts map[wrong]int
	shown  []finding
}

// finding is one of them.
type finding struct {
	wrong     wrong
	operation string
	text      string
}

// mostShown is how many findings are kept to be printed; all are counted.
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

// count is how many there are of a kind.
func (f *findings) count(what wrong) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[what]
}

// print prints what was kept, each with all that the database and the apps' logs have of its operation.
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
