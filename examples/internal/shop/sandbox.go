package shop

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/examples/internal/provider"
)

// Test methods, as in the sandboxes of payment providers.
const (
	MethodOK          = "pm_ok"
	MethodDeclined    = provider.MethodDeclined // refused with 402
	MethodSlow        = "pm_slow"               // takes 2 s
	MethodUnavailable = "pm_unavailable"        // 503, declared not applied
	MethodError       = "pm_error"              // 500, after rows were written or the provider was charged
	MethodPanic       = "pm_panic"              // a panic, at the same point
	MethodHang        = "pm_hang"               // does not return by itself; unsafe
	MethodCrash       = "pm_crash"              // ends the process, at the same point; unsafe
	MethodLost        = provider.MethodLost     // the provider is charged and its answer is lost, once; unsafe
	MethodStuck       = provider.MethodStuck    // the provider is charged and its answer is lost, always; unsafe
	MethodCommit      = "pm_commit"             // the handler commits its transaction itself, and writes on; unsafe
	MethodRollback    = "pm_rollback"           // the handler rolls it back itself, and writes on; unsafe
)

func (s *Shop) checkMethod(method string) error {
	safe := []string{MethodOK, MethodDeclined, MethodSlow, MethodUnavailable, MethodError, MethodPanic}
	dangerous := []string{MethodHang, MethodCrash, MethodLost, MethodStuck, MethodCommit, MethodRollback}
	if slices.Contains(safe, method) || s.unsafe && slices.Contains(dangerous, method) {
		return nil
	}
	return &InvalidError{"method", "pm_ok, or another test method"}
}

// checkAvailable fails for pm_unavailable. Nothing was done yet, and nothing will be done. NotApplied declares that, and so
// the key is free again.
func checkAvailable(ctx context.Context, method string) error {
	if method != MethodUnavailable {
		return nil
	}
	core.NotApplied(ctx)
	return ErrUnavailable
}

// strike fails as the test method says, at the worst moment: rows are written or the provider is charged, and there is no
// answer yet.
func (s *Shop) strike(ctx context.Context, method string) error {
	switch method {
	case MethodSlow:
		return pause(ctx, s.slow)
	case MethodError:
		return ErrSimulated
	case MethodPanic:
		panic("a simulated panic")
	case MethodHang:
		<-ctx.Done()
		return ErrInterrupted
	case MethodCrash:
		os.Exit(137) // as kill -9: nothing deferred runs, no COMMIT and no ROLLBACK is sent
	}
	return nil
}

// pause waits for d, or until the attempt's deadline or the loss of its lease. It does not end when the client disconnects.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ErrInterrupted
	}
}
