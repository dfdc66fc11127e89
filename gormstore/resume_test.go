package gormstore_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// CONTRACT X-3
func TestResumeGoesOnAfterTheLastFinishedStep(t *testing.T) {
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		a := newStepApp(t, newStore(t, db))
		var fails string
		var keys []string
		books := 0
		at := func(step string) error {
			if step == fails {
				return errors.New("failed at " + step)
			}
			return nil
		}
		handle := func(ctx context.Context) error {
			reserved, err := gormstore.Step(ctx, "reserve", func(tx *gorm.DB) (uint, error) {
				row := effect{Name: "reserved"}
				err := tx.Create(&row).Error
				return row.ID, errors.Join(err, at("reserve"))
			})
			if err != nil {
				return err
			}
			require.NotZero(t, reserved, "the result of a finished step is kept")
			err = core.CallDo(ctx, "charge", func(_ context.Context, key core.DerivedKey) error {
				keys = append(keys, key.UUID())
				return at("charge")
			}, core.Dedup(23*time.Hour))
			if err != nil {
				return err
			}
			return gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error {
				books++
				return errors.Join(stock(tx), at("book"))
			})
		}
		for _, fails = range []string{"reserve", "charge", "charge", "book"} {
			require.Equal(t, http.StatusInternalServerError, a.post(handle).Code)
		}
		fails = ""
		advance(t, db, store.DefaultPause) // behind the third attempt that has committed
		first := a.post(handle)
		require.Equal(t, http.StatusCreated, first.Code, first.Body)
		require.Equal(t, "created", first.Header().Get("Idempotency-Result"))
		require.Equal(t, "reused", a.post(handle).Header().Get("Idempotency-Result"))
		require.Equal(t, 2, countEffects(t, db), "reserved and booked, once each")
		require.Len(t, keys, 3, "twice without a known outcome, once with")
		require.Equal(t, keys[0], keys[2], "one key for the provider in all attempts")
		require.Equal(t, 2, books)
	})
}

// serve is an adapter for one request.
func serve(t *testing.T, m *core.Module, key string, h http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	return serveAs(t, m, alice, key, `{"amount":"1.00"}`, h)
}

func serveAs(t *testing.T, m *core.Module, p core.Principal, key, body string, h http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/v1/refunds", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	r, reply := m.Admit(r, "/v1/refunds", p)
	require.Nil(t, reply)
	attempt, reply := m.Begin(r, "/v1/refunds", p)
	if reply != nil {
		require.NoError(t, reply.WriteTo(w))
		return w
	}
	finished := false
	defer func() {
		if !finished { // a panic, or a failed test, which must not leave the transaction open
			attempt.Panicked(w.Header())
		}
	}()
	h.ServeHTTP(attempt.Capture(w), attempt.Request())
	finished = true
	if reply := attempt.Finish(); reply != nil {
		require.NoError(t, reply.WriteTo(w))
	}
	return w
}
