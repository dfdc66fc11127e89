package core

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"

	"github.com/auth19/idem/core/store"
)

// LogObserver writes events to a log. Events that need attention ([EventKind.IsWarning]) are warnings. At level info
// are: the reason of a 401, of a 403, of a 500 misconfigured and of a 500 route_undeclared; why an attempt was rolled
// back; an attempt that has freed its key although it counted as unknown; unguarded routes; erasures;
// answers that operators have read; and settlements, also refused ones. All others are debug messages. An attempt that
// was rolled back because a statement of it, or its COMMIT, has failed is a warning: the client gets 500
// transaction_aborted. Of that error only the SQLSTATE is logged, because the text of a database may have values of the
// request in it; at level debug the text is there, too. Only the first EventTransactionUnused and EventStatementFailed
// of a route and process are warnings; later ones are debug messages.
func LogObserver(log *slog.Logger) Observer {
	return ObserverFunc(func(ctx context.Context, e Event) {
		level := slog.LevelDebug
		switch {
		case (e.Kind == EventTransactionUnused || e.Kind == EventStatementFailed) && e.Count > 1:
		case e.Kind == EventRolledBack && errors.Is(e.Err, ErrAborted):
			level = slog.LevelWarn
		case e.Kind.IsWarning():
			level = slog.LevelWarn
		case e.Kind == EventUnguarded, e.Kind == EventErasing, e.Kind == EventErased,
			e.Kind == EventAnswerRead, e.Kind == EventSettled, e.Kind == EventSettleRefused,
			e.Kind == EventProposed, e.Kind == EventWithdrawn,
			e.Kind == EventRetried, e.Kind == EventGivenUp, e.Kind == EventKeysRefused, e.Kind == EventMarked,
			(e.Kind == EventRolledBack || e.Kind == EventFreed) && e.Err != nil,
			e.Kind == EventRefused && (e.Code == CodeUnauthenticated || e.Code == CodeForbidden ||
				e.Code == CodeMisconfigured || e.Code == CodeRouteUndeclared):
			level = slog.LevelInfo
		}
		if !log.Enabled(ctx, level) {
			return
		}
		attrs := make([]slog.Attr, 0, 8)
		if e.Operation != (ID{}) {
			attrs = append(attrs, slog.String("operation", e.Operation.String()))
		}
		if e.Route != "" {
			attrs = append(attrs, slog.String("method", e.Method), slog.String("route", e.Route))
		}
		if e.Fence != 0 {
			attrs = append(attrs, slog.Int64("fence", e.Fence))
		}
		if e.Status != 0 {
			attrs = append(attrs, slog.Int("status", e.Status))
		}
		if e.Code != "" {
			attrs = append(attrs, slog.String("code", string(e.Code)))
		}
		if e.Count != 0 {
			attrs = append(attrs, slog.Int("count", e.Count))
		}
		if e.Earlier != (ID{}) {
			attrs = append(attrs, slog.String("earlier", e.Earlier.String()))
		}
		if !e.Until.IsZero() {
			attrs = append(attrs, slog.Time("until", e.Until))
		}
		if e.Who != "" {
			attrs = append(attrs, slog.String("who", e.Who))
		}
		if e.Scope != (store.Scope{}) {
			attrs = append(attrs, slog.String("scope", hex.EncodeToString(e.Scope[:])))
		}
		why := e.Why
		if e.Operation != (ID{}) {
			why = "" // it may tell of a person or of the answer; the store's history has it
		}
		for _, text := range [...]struct{ name, value string }{
			{"proposer", e.Proposer}, {"outcome", e.Outcome}, {"digest", e.Digest}, {"why", why},
		} {
			if text.value != "" {
				attrs = append(attrs, slog.String(text.name, text.value))
			}
		}
		if e.Open != 0 {
			attrs = append(attrs, slog.Int("open", e.Open))
		}
		switch {
		case e.Err == nil:
		case e.Kind == EventRolledBack && !log.Enabled(ctx, slog.LevelDebug):
			attrs = append(attrs, withoutText(e.Err)...)
		default:
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		log.LogAttrs(ctx, level, "idem: "+string(e.Kind), attrs...)
	})
}

// withoutText tells why an attempt was rolled back without the text of the database's error.
func withoutText(err error) (attrs []slog.Attr) {
	for _, known := range []error{ErrAborted, ErrStale, ErrClock, ErrRetryable} {
		if errors.Is(err, known) {
			attrs = append(attrs, slog.String("error", known.Error()))
			break
		}
	}
	if database, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		attrs = append(attrs, slog.String("sqlstate", database.SQLState()))
	}
	return attrs
}
