package core

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type valueKey struct{}

// newLazyContext returns a lazy context over a request's context, which it ends when it is called for.
func newLazyContext(t *testing.T) (b *lazyContext, hangUp context.CancelFunc) {
	t.Helper()
	request, hangUp := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "of the request"))
	t.Cleanup(hangUp)
	b = new(lazyContext).until(context.WithoutCancel(request), time.Now().Add(time.Minute))
	b.late = errDeadline
	t.Cleanup(func() { b.cancel(context.Canceled) })
	return b, hangUp
}

// waiting are contexts that somebody has waited for, and that nobody has: what one can see of them is the same.
var waiting = map[string]func(b *lazyContext){
	"nobody waits":   func(*lazyContext) {},
	"somebody waits": func(b *lazyContext) { b.Done() },
}

// CONTRACT
func TestLazyContext(t *testing.T) {
	for what, check := range map[string]func(t *testing.T, b *lazyContext, hangUp func()){
		"outlives its request": func(t *testing.T, b *lazyContext, hangUp func()) {
			hangUp()
			require.NoError(t, b.Err())
			require.NoError(t, context.Cause(b))
			require.Equal(t, "of the request", b.Value(valueKey{}))
			deadline, ok := b.Deadline()
			require.True(t, ok)
			require.Equal(t, time.Minute, time.Until(deadline))
			select {
			case <-b.Done():
				t.Fatal("it has ended")
			default:
			}
		},
		"is cancelled": func(t *testing.T, b *lazyContext, _ func()) {
			b.cancel(ErrLeaseLost)
			b.cancel(errors.New("another cause"))
			require.Equal(t, ErrLeaseLost, context.Cause(b), "the first cause")
			require.Equal(t, context.Canceled, b.Err())
			<-b.Done()
			require.Equal(t, "of the request", b.Value(valueKey{}))
		},
		"ends at its deadline": func(t *testing.T, b *lazyContext, _ func()) {
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, errDeadline, context.Cause(b))
			require.Equal(t, context.DeadlineExceeded, b.Err())
			<-b.Done()
		},
		"ends its children": func(t *testing.T, b *lazyContext, _ func()) { // a goroutine that stays behind is a failure
			child, cancel := context.WithTimeout(b, time.Hour)
			defer cancel()
			called := make(chan struct{})
			context.AfterFunc(b, func() { close(called) })
			stopped := context.AfterFunc(b, func() { t.Error("it was stopped") })
			require.True(t, stopped())
			b.cancel(ErrLeaseLost)
			<-child.Done()
			<-called
			require.Equal(t, ErrLeaseLost, context.Cause(child))
		},
	} {
		for name, wait := range waiting {
			t.Run(what+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, hangUp := newLazyContext(t)
					wait(b)
					check(t, b, hangUp)
				})
			})
		}
	}
}
