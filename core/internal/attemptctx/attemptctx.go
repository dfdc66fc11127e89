// Package attemptctx is the part of an attempt that its handler's context carries: what the functions of core that
// take a context read and write. It is apart from core, and internal to it, so that core/idemtest can make such a
// context without a request and a store, and nobody else can.
package attemptctx

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
)

// View is what a handler can learn about its attempt, and declare to it. The types are those below core's. It is the
// context that carries it, to save an allocation.
type View struct {
	context.Context

	Core      any               // the *core.Attempt; nil in a unit test
	Operation [sha256.Size]byte // store.ID

	NotApplied atomic.Bool // core.NotApplied was called
	KeepRows   atomic.Bool // core.KeepRows was called
	Failed     atomic.Bool // core.Failed was called

	Calls Calls

	Rehearsal *Rehearsal // in a unit test: where steps are kept
	Steps     any        // in a unit test: how far core has got with them; Rehearsal is the lock
}

// Rehearsal keeps the steps of an operation from one attempt of a unit test to the next, as a store does.
type Rehearsal struct {
	sync.Mutex
	Recorded any // []store.StepRecord
}

// Command is store.CommandHash.
type Command struct {
	Version int16
	Sum     [sha256.Size]byte
}

type key struct{}

// Value implements [context.Context].
func (v *View) Value(of any) any {
	switch of {
	case key{}:
		return v
	case callsKey{}:
		return &v.Calls
	}
	return v.Context.Value(of)
}

// From returns the attempt that ctx is inside of, nil where it is inside none.
func From(ctx context.Context) *View {
	v, _ := ctx.Value(key{}).(*View)
	return v
}
