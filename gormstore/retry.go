package gormstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"
)

// maxTries bounds how often the store runs a statement of its own after a lost snapshot race, a serialization failure or a
// deadlock.
const maxTries = 16

// retry runs fn again after a serialization failure or a deadlock. The pauses are random: transactions that fail together
// would fail together again.
func retry(ctx context.Context, fn func() error) error {
	for try := range maxTries {
		err := fn()
		if err == nil || try == maxTries-1 || !isConflict(err) {
			return err
		}
		timer := time.NewTimer(rand.N(min(time.Millisecond<<try, 50*time.Millisecond)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
	return nil // not reached: maxTries is above 0
}

// sqlState returns the SQLSTATE of an error from PostgreSQL, "" for any other error.
func sqlState(err error) string {
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return e.SQLState()
	}
	return ""
}

// isConflict reports a failure that another try of the same transaction may not have: serialization, deadlock.
func isConflict(err error) bool { return strings.HasPrefix(sqlState(err), "40") }

// isRetryable reports the failures after which the whole command may be repeated as it was: class 40, lock not
// available, operator intervention.
func isRetryable(err error) bool {
	state := sqlState(err)
	return strings.HasPrefix(state, "40") || state == lockNotAvailable || strings.HasPrefix(state, "57")
}
