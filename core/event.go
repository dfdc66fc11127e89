package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/auth19/idem/core/internal/attemptctx"
)

// Errors of [EventKey].
var (
	// ErrSameEvent: the handler has made an event of this name before. The two would have one id, and whoever processes an
	// id once would drop one of them.
	ErrSameEvent = errors.New("idem: this handler has made an event of the same name before, and a consumer would take the " +
		"second for a duplicate; give each event of an operation a name of its own")

	// ErrNoHandler: the context belongs to no handler that an event could be derived from.
	ErrNoHandler = errors.New("idem: the context belongs to no attempt and to no message of an inbox")
)

// EventKey returns the key of an event that a handler publishes: derived from the operation of its attempt, or from the
// message that an inbox processes, and from the name; the same in every attempt and every delivery. It is nobody
// else's: a provider call or a step of the same name has another one.
//
// Errors: [ErrSameEvent], the second time in one attempt or delivery; [ErrNoHandler]; one that says that the handler has
// returned.
func EventKey(ctx context.Context, name string) (DerivedKey, error) {
	calls := attemptctx.CallsFrom(ctx)
	if calls == nil {
		return DerivedKey{}, ErrNoHandler
	}
	if over := calls.Over(); over != nil {
		return DerivedKey{}, over
	}
	key := EventKeyOf(calls.Origin, name)
	if !calls.Enter(key) {
		return DerivedKey{}, fmt.Errorf("%w: %q", ErrSameEvent, name)
	}
	return key, nil
}

// EventKeyOf is the key that [EventKey] gives in the handler of an operation or message, for whoever publishes in the
// handler's place.
func EventKeyOf(origin ID, name string) DerivedKey { return DeriveKey(origin, "event/"+name) }
