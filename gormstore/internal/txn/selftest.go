package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core/store"
)

// SelfTest sends the statements of a money path, with names that nobody else has, in a transaction that has begun, and reads
// back what they have written. The transaction is rolled back (F-8).
type SelfTest func(ctx context.Context, t *Tx) error

// Beside is the self-test of what a handler may use first. Where there is one writer it is none: the handler may have it.
func (d *Database) Beside(test SelfTest) SelfTest {
	if d.Dialect.OneWriter {
		return nil
	}
	return test
}

// ErrAltered is the error of a self-test that reads something else than it has written, or finds that nothing was written.
var ErrAltered = errors.New("what is read back is not what was written: a trigger, a rule, row-level security or a proxy " +
	"changes or hides it")

// Altered is ErrAltered of a statement, and of what it has written.
func Altered(name Statement, what string) error {
	return fmt.Errorf("%s: %s: %w", name, what, ErrAltered)
}

const (
	selfTestTime  = 10 * time.Second // how long a self-test may take
	selfTestPause = time.Minute      // how long a refusal stands

	// AnyClock is the MaxClockSkew of a self-test: it does not judge the clock.
	AnyClock = 100 * 365 * 24 * time.Hour
)

// test runs a self-test; nil: there is none.
func (d *Database) test(ctx context.Context, test SelfTest) error {
	if test == nil {
		return nil
	}
	undone := errors.New("so that it is rolled back")
	err := d.writing(ctx, func() error {
		return Retry(ctx, func() error {
			_, err := d.Begin(ctx, nil, func(t *Tx) error {
				if err := d.beginTest(ctx, t); err != nil {
					return err
				}
				if err := test(ctx, t); err != nil {
					return err
				}
				return undone
			})
			return err
		})
	})
	if errors.Is(err, undone) {
		return nil
	}
	return fmt.Errorf("idem: gormstore: the self-test: %w", err)
}

func (d *Database) beginTest(ctx context.Context, t *Tx) error {
	own := t.Conn.SQL
	first, err := d.first(ctx, own, selfTestTime, &t.Mark, nil)
	if err != nil {
		return err
	}
	texts := d.Dialect.BeginTest
	return Ask(ctx, own, d.opening(own, &t.Mark, texts[0], append(calls(texts[1:]), first)...)...)
}

// Validated remembers that a validation and its self-test have passed.
type Validated struct {
	passed atomic.Bool
	mu     sync.Mutex
	last   *try
}

// try is one validation with its self-test, for all who wait for it.
type try struct {
	over  chan struct{} // closed at its end
	err   error
	again time.Time // when the next one may begin
}

// Validate looks at the server and at the tables that are needed, and runs the self-test.
func (v *Validated) Validate(ctx context.Context, d *Database, need Rights, test SelfTest) error {
	if err := d.inspect(ctx, Inspector{Statements: d.Statements}, need); err != nil {
		return err
	}
	return v.Test(ctx, d, test)
}

// Test runs the self-test, for a caller that has looked at the server and at the tables.
func (v *Validated) Test(ctx context.Context, d *Database, test SelfTest) error {
	err := d.test(ctx, test)
	if err == nil {
		v.passed.Store(true) // the first use need not ask again
	}
	return err
}

// Doubt makes the next use validate again.
func (v *Validated) Doubt() { v.passed.Store(false) }

// Once validates until it has passed once. All who come meanwhile share one try. After an error of a statement the next one
// begins a minute later, after any other error with the next call. The error is store.ErrUnfit.
func (v *Validated) Once(ctx context.Context, d *Database, need Rights, test SelfTest) error {
	if v.passed.Load() {
		return nil
	}
	return v.share(ctx, func(ctx context.Context) error {
		if err := d.inspect(ctx, Inspector{Statements: d.Statements, inUse: true}, need); err != nil {
			return err
		}
		return d.test(ctx, test)
	})
}

func (v *Validated) share(ctx context.Context, run func(context.Context) error) error {
	t := v.join(run)
	select {
	case <-t.over:
		return t.err
	case <-ctx.Done():
		return fmt.Errorf("%w: its self-test has not ended: %w", store.ErrUnfit, ctx.Err())
	}
}

// join returns the try to wait for, and begins one if need be.
func (v *Validated) join(run func(context.Context) error) *try {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t := v.last; t != nil {
		select {
		case <-t.over:
			if v.passed.Load() || time.Now().Before(t.again) {
				return t
			}
		default:
			return t
		}
	}
	t := &try{over: make(chan struct{})}
	v.last = t
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), selfTestTime) // it is nobody's own
		defer cancel()
		defer close(t.over)
		err := run(ctx)
		switch {
		case err == nil:
			v.passed.Store(true)
			return
		case isRefusedForGood(err):
			t.again = time.Now().Add(selfTestPause)
		}
		t.err = fmt.Errorf("%w: %w", store.ErrUnfit, err)
	}()
	return t
}

// isRefusedForGood reports the error of a statement that will come again: it was refused as such, or what it has written is
// not what is read. A lock, a lost connection, and a server that stops or takes no writes may pass by themselves.
func isRefusedForGood(err error) bool {
	state := SQLState(err)
	switch {
	case errors.Is(err, ErrAltered), errors.Is(err, errUnchanged):
		return true
	case state == "":
		return slices.ContainsFunc(Dialects, func(d *Dialect) bool { return d.OfStatement(err) || d.OfCommand(err) })
	}
	passes := func(class string) bool { return strings.HasPrefix(state, class) }
	return !isRetryable(err) && !takesNoWrites(err) && !passes("08") && !passes("53") && !passes("58")
}
