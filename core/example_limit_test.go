package core_test

import (
	"context"
	"log/slog"
	"os"

	"golang.org/x/time/rate"

	"github.com/auth19/idem/core"
)

// Anybody can cause a line for each 401. This observer, for JWTGuard or Bridge, writes at most one in a second.
func ExampleObserverFunc() {
	log := core.LogObserver(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime})))
	limit := rate.NewLimiter(1, 1) // lines per second, and at once
	limited := core.ObserverFunc(func(ctx context.Context, e core.Event) {
		if e.Code != core.CodeUnauthenticated || limit.Allow() {
			log.Observe(ctx, e)
		}
	})
	for range 1000 { // by JWTGuard(verifier, limited)
		limited.Observe(context.Background(), core.Event{Kind: core.EventRefused, Code: core.CodeUnauthenticated})
	}
	// Output: level=INFO msg="idem: refused" code=unauthenticated
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
