package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/examples/internal/database"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/gormstore/watermillidem"
)

// guard returns the middleware around the handler: a few tries, then the dead letters, so that a message that cannot be
// handled does not block those after it. After a temporary error the message goes back to the broker.
func guard(dead message.Publisher) ([]message.HandlerMiddleware, error) {
	bury, err := middleware.PoisonQueueWithFilter(dead, deadLetters, poisonous)
	retry := middleware.Retry{
		MaxRetries: 3, InitialInterval: 100 * time.Millisecond, Multiplier: 2, RandomizationFactor: 0.5,
		ShouldRetry: func(p middleware.RetryParams) bool { return !hopeless(p.Err) && !passing(p.Err) },
	}
	return []message.HandlerMiddleware{bury, inTime, retry.Middleware, middleware.Recoverer, toTheEnd}, err
}

var errTakenBack = errors.New("the broker delivers the message again, because this worker took too long")

// inTime reports errTakenBack if the deadline passed and the broker has taken the message back as well: the worker was
// paused, or the database did not answer. That says nothing about the message, and another worker may have processed it.
func inTime(next message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		delivery := m.Context()
		produced, err := next(m)
		if errors.Is(err, context.DeadlineExceeded) && delivery.Err() != nil {
			err = fmt.Errorf("%w: %w", errTakenBack, err)
		}
		return produced, err
	}
}

// hopeless reports whether another try would end in the same way.
func hopeless(err error) bool { return watermillidem.Permanent(err) || errors.Is(err, errMalformed) }

// passing reports whether an error is temporary and not caused by the message: another delivery is being processed, a
// conflict, a database that is unreachable or read-only.
func passing(err error) bool {
	if errors.Is(err, errTakenBack) || errors.Is(err, store.ErrCrowded) { // no connection was free in time
		return true
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return false // a handler that hangs
	}
	for _, known := range []error{inbox.ErrBusy, core.ErrRetryable, core.ErrUnconfirmed, core.ErrClock, context.Canceled} {
		if errors.Is(err, known) {
			return true
		}
	}
	return database.IsUnavailable(err) || unfit(err)
}

// unfit reports whether an error is of a database that refuses every message: it is read-only, a right or a table is
// missing, or it has no space. Messages wait until the database is repaired.
func unfit(err error) bool {
	if server, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		switch server.SQLState() {
		case "25006", "42501", "42P01", "42703": // read-only; no right; no such table, no such column
			return true
		}
		return slices.Contains([]string{"28", "3D", "58"}, server.SQLState()[:2]) // no entry; no such database; its disk
	}
	file, ok := errors.AsType[interface {
		error
		Code() int
	}](err)
	unusable := []int{sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
	return ok && slices.Contains(unusable, file.Code()&0xff)
}

// poisonous reports whether a message goes to the dead letters. Every error that is not known to be temporary does that,
// also that of a handler that panics or hangs. Otherwise the message would come again for ever.
func poisonous(err error) bool { return !passing(err) }
