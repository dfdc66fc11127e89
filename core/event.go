package core

import (
	"context"
	"errors"
	"fmt"
)

// ErrSameEvent means that the handler has made an event of this name before. Both would have one id, and a consumer that
// processes each id once would drop one of them.
var ErrSameEvent = errors.New("idem: this handler has made an event of the same name before, and a consumer would take " +
	"the second for a duplicate; give each event of an operation a name of its own")

// DeriveEvent returns the key of the event of the given name that the handler of ctx publishes: see [DerivedKey].
//
// Errors: [ErrSameEvent] for the second event of this name in one attempt or delivery, including the events of steps that
// an earlier attempt has finished; the errors of [DeriveCall].
func DeriveEvent(ctx context.Context, name string) (DerivedKey, error) {
	calls, err := callsOf(ctx)
	if err != nil {
		return DerivedKey{}, err
	}
	key := ID(calls.Origin).DeriveEvent(name)
	if !calls.Enter(key) {
		return DerivedKey{}, fmt.Errorf("%w: %q", ErrSameEvent, name)
	}
	return key, nil
}
