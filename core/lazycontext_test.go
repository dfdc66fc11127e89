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

// CONTRACT R-5
func TestLazyContextOutlivesItsRequest(t *testing.T) {
	for name, wait := range waiting {
		t.Run(name, func(t *testing.T) {
			b, hangUp := newLazyContext(t)
			wait(b)
			hangUp()
			require.NoError(t, b.Err())
			require.NoError(t, context.Cause(b))
			require.Equal(t, "of the request", b.Value(valueKey{}))
			deadline, ok := b.Deadline()
			require.True(t, ok)
			require.WithinDuration(t, time.Now().Add(time.Minute), deadline, time.Minute)
			select {
			case <-b.Done():
				t.Fatal("it has ended")
			default:
			}
		})
	}
}

// CONTRACT X-1
func TestLazyContextIsCancelled(t *testing.T) {
	for name, wait := range waiting {
		t.Run(name, func(t *testing.T) {
			b, _ := newLazyContext(t)
			wait(b)
			b.cancel(ErrLeaseLost)
			b.cancel(errors.New("another cause"))
			require.Equal(t, ErrLeaseLost, context.Cause(b), "the first cause")
			require.Equal(t, context.Canceled, b.Err())
			<-b.Done()
			require.Equal(t, "of the request", b.Value(valueKey{}))
		})
	}
}

// CONTRACT R-5
func TestLazyContextEndsAtItsDeadline(t *testing.T) {
	for name, wait := range waiting {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := newLazyContext(t)
				wait(b)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, errDeadline, context.Cause(b))
				require.Equal(t, context.DeadlineExceeded, b.Err())
				<-b.Done()
			})
		})
	}
}

func TestLazyContextEndsItsChildren(t *testing.T) {
	for name, wait := range waiting {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // in which a goroutine that stays behind is a failure
				b, _ := newLazyContext(t)
				wait(b)
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
			})
		})
	}
}
