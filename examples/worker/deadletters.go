package main

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/examples/internal/database"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/watermillidem"
)

// guard returns the middleware around the handler: a few tries, and then the dead letters, so that a message that
// cannot be handled does not block those after it. What only the time is to blame for is handed back to the broker.
func guard(dead message.Publisher) ([]message.HandlerMiddleware, error) {
	bury, err := middleware.PoisonQueueWithFilter(dead, deadLetters, poisonous)
	retry := middleware.Retry{
		MaxRetries: 3, InitialInterval: 100 * time.Millisecond, Multiplier: 2, RandomizationFactor: 0.5,
		ShouldRetry: func(p middleware.RetryParams) bool { return !hopeless(p.Err) && !passing(p.Err) },
	}
	return []message.HandlerMiddleware{bury, retry.Middleware, middleware.Recoverer, toTheEnd}, err
}

// hopeless reports that another try would end in the same way.
func hopeless(err error) bool { return watermillidem.Permanent(err) || errors.Is(err, errMalformed) }

// passing reports that the message is not to blame: another delivery is at it, a conflict, a database that is away.
func passing(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return false // a handler that hangs
	}
	for _, known := range []error{gormstore.ErrMessageBusy, core.ErrRetryable, core.ErrUnconfirmed, context.Canceled} {
		if errors.Is(err, known) {
			return true
		}
	}
	return database.IsUnavailable(err)
}

// poisonous reports that a message goes to the dead letters: whatever is not known to pass by itself would come again
// for ever, a handler that panics or hangs included.
func poisonous(err error) bool { return !passing(err) }
