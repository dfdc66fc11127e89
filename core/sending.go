package core

import (
	"net/http"
	"reflect"
	"time"

	"github.com/auth19/idem/core/store"
)

// deadliner is a writer whose writes can be ended.
type deadliner interface {
	SetWriteDeadline(deadline time.Time) error
}

// deadlinerOf returns the first writer in w, from outside to inside, whose writes can be ended; nil if none can be reached.
// Not all middleware that wraps a writer has Unwrap (gin-contrib/gzip has not), but nearly all embeds it.
func deadlinerOf(w http.ResponseWriter) deadliner {
	for w != nil {
		switch own := w.(type) {
		case deadliner:
			return own
		case interface{ Unwrap() http.ResponseWriter }:
			w = own.Unwrap()
		default:
			w = embedded(w)
		}
	}
	return nil
}

func embedded(w http.ResponseWriter) http.ResponseWriter {
	v := reflect.Indirect(reflect.ValueOf(w))
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Anonymous && f.IsExported() {
			if inner, ok := reflect.TypeAssert[http.ResponseWriter](v.Field(i)); ok {
				return inner
			}
		}
	}
	return nil
}

// LimitSending ends the answer to r after [store.DefaultDeadline] from now, or with the server's WriteTimeout if that is
// shorter: a client that does not read must not hold it for ever. It is for handlers that write their answers
// themselves. Those of guarded routes, and every [Reply] that is sent, have a deadline already.
func LimitSending(w http.ResponseWriter, r *http.Request) {
	limitSending(w, r, store.DefaultDeadline, time.Time{})
}

func limitSending(w http.ResponseWriter, r *http.Request, within time.Duration, ends time.Time) {
	if timeout := writeTimeout(r); timeout <= 0 || timeout > within {
		ends = sooner(time.Now().Add(within), ends)
	}
	if own := deadlinerOf(w); own != nil && !ends.IsZero() {
		_ = own.SetWriteDeadline(ends)
	}
}

// writeTimeout is the WriteTimeout of the server of r; 0 for none.
func writeTimeout(r *http.Request) time.Duration {
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok {
		return server.WriteTimeout
	}
	return 0
}

// Beside is what a writer offers beside writing, and what changes no byte of an answer: deadlines, and full duplex. The
// writers that adapters put in front of it embed Beside, because they have no Unwrap.
type Beside struct{ Writer http.ResponseWriter }

// SetReadDeadline is that of [http.ResponseController].
func (b Beside) SetReadDeadline(deadline time.Time) error {
	return http.NewResponseController(b.Writer).SetReadDeadline(deadline)
}

// SetWriteDeadline is that of [http.ResponseController].
func (b Beside) SetWriteDeadline(deadline time.Time) error {
	return http.NewResponseController(b.Writer).SetWriteDeadline(deadline)
}

// EnableFullDuplex is that of [http.ResponseController].
func (b Beside) EnableFullDuplex() error {
	return http.NewResponseController(b.Writer).EnableFullDuplex()
}

// sooner returns the earlier of two times; a zero time is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
