package store

import "time"

// StepKind says what a step does: it writes rows, or it calls a provider.
type StepKind uint8

// The kinds of steps.
const (
	DatabaseStep StepKind = iota + 1 // rows, which commit together with the step
	ProviderStep                     // a call to a provider
)

// String returns "database step" or "provider step".
func (k StepKind) String() string {
	switch k {
	case DatabaseStep:
		return "database step"
	case ProviderStep:
		return "provider step"
	}
	return "step of no kind"
}

// StepRecord is the record of a step: see [Attempts].
type StepRecord struct {
	Name     string // unique within the operation
	Kind     StepKind
	Finished bool
	Result   []byte // JSON; set once it is finished
	Unread   Unread // set where the store could not read Result
	// Derived are the keys of the calls and events that the handler made during this step. They are set when the step has
	// finished. A later attempt does not run the step again, and must not use the same keys for something else.
	Derived []DerivedKey

	Fence      int64     // of the attempt that started it first; in a Seal 0 if the attempt has found no record of it
	StartedAt  time.Time // when that was recorded, by the store's clock
	FinishedAt time.Time // when its result was recorded, by the store's clock; zero while it is unfinished
	Now        time.Time // the store's clock when this was read
}
