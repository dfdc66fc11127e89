package attemptctx

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// Calls are the calls that a handler makes with core/idemclient: what their keys are derived from, and which there were
// (C-3, Q-4). An attempt has them, and a message that an inbox processes.
type Calls struct {
	Origin  [sha256.Size]byte // the operation, or what stands for the message
	Command Command           // the operation's; of a message, the hash of its payload, without a version
	// Again says that there may have been an attempt before, which may have made the same calls (C-5).
	Again   bool
	Life    context.Context // ends with the deadline of the attempt; nil where it has none of its own
	InSteps bool            // a call leaves from inside a provider step only

	ended atomic.Bool

	mu      sync.Mutex
	made    [][sha256.Size]byte // the keys of the calls and events, in their order
	planned []string            // the intents that were planned with the handler's context
}

var errOver = errors.New("idem: the attempt is over; do not keep the context of a handler beyond its return, or plan the " +
	"intent in the handler's transaction")

// Enter notes a call or an event. It is false where there was one of the same key before.
func (c *Calls) Enter(key [sha256.Size]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.made, key) {
		return false
	}
	c.made = append(c.made, key)
	return true
}

// Made returns the keys that were noted after the first n.
func (c *Calls) Made(n int) [][sha256.Size]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.made[n:])
}

// Plan notes that an intent was planned with the handler's context.
func (c *Calls) Plan(intent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.planned = append(c.planned, intent)
}

// Planned reports whether Plan has noted the intent.
func (c *Calls) Planned(intent string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.planned, intent)
}

// End is called when the handler has returned.
func (c *Calls) End() { c.ended.Store(true) }

// Over is why no key may be derived any more: the handler has returned, or its deadline has passed. nil until then.
func (c *Calls) Over() error {
	switch {
	case c.ended.Load():
		return errOver
	case c.Life != nil && c.Life.Err() != nil:
		return context.Cause(c.Life)
	}
	return nil
}

// MayLeave is why no call may be made with ctx. A provider step has made durable what stands before its calls, and
// that they begin. Where the handler has returned, a call is not its own any more.
func MayLeave(ctx context.Context) error {
	if c := CallsFrom(ctx); c == nil || !c.InSteps || c.ended.Load() || StepFrom(ctx) != nil {
		return nil
	}
	return errOutsideCall
}

var errOutsideCall = errors.New("idem: a Resume handler has called outside core.Call: no later attempt would know of it; " +
	"make it in a core.Call, with the context that core.Call passes")

// Step is the provider step that a context belongs to.
type Step struct {
	Key   [sha256.Size]byte // calls inside the step derive their keys from it
	First bool              // it has certainly never begun before, and so none of its calls was made
}

type stepKey struct{}

// WithStep returns a context inside s; nil takes it out of a step.
func WithStep(ctx context.Context, s *Step) context.Context {
	return context.WithValue(ctx, stepKey{}, s)
}

// StepFrom returns the provider step that ctx is inside of, nil where it is inside none.
func StepFrom(ctx context.Context) *Step {
	s, _ := ctx.Value(stepKey{}).(*Step)
	return s
}

type callsKey struct{}

// CallsFrom returns the calls of the handler that ctx belongs to: those of the message where an inbox processes one
// inside an attempt. nil outside a handler.
func CallsFrom(ctx context.Context) *Calls {
	c, _ := ctx.Value(callsKey{}).(*Calls)
	return c
}

// WithCalls returns a context that carries c.
func WithCalls(ctx context.Context, c *Calls) context.Context {
	return context.WithValue(ctx, callsKey{}, c)
}
