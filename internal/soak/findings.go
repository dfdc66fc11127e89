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
	wrong  wrong
	intent intent
	text   string
}

// mostShown is how many findings are kept to be printed; all are counted.
const mostShown = 20

func (f *findings) add(what wrong, i intent, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = map[wrong]int{}
	}
	f.counts[what]++
	if len(f.shown) < mostShown {
		f.shown = append(f.shown, finding{what, i, text})
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
		operation := found.intent.operation()
		_, _ = fmt.Fprintf(out, "\n%s: %+v, operation %s: %s\n", found.wrong, found.intent, operation, found.text)
		if !printed[operation] {
			printed[operation] = true
			_, _ = fmt.Fprint(out, evidence(operation))
		}
	}
}
