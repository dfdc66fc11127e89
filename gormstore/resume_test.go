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
	"github.com/auth19/idem/gormstore"
)

// refund is a handler of three steps; it fails where fail says so.
type refund struct {
	fail           string
	charges, books int
	keys           []string
}

func (f *refund) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	err := func() error {
		reserved, err := gormstore.Step(ctx, "reserve", func(tx *gorm.DB) (uint, error) {
			row := effect{Name: "reserved"}
			if err := tx.Create(&row).Error; err != nil {
				return 0, err
			}
			return row.ID, f.at("reserve")
		})
		if err != nil {
			return err
		}
		if reserved == 0 {
			return errors.New("the result of a finished step is lost")
		}
		_, err = core.Call(ctx, "charge", func(_ context.Context, key core.DerivedKey) (string, error) {
			f.charges++
			f.keys = append(f.keys, key.UUID())
			return "ch_1", f.at("charge")
		}, core.Dedup(23*time.Hour))
		if err != nil {
			return err
		}
		return gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error {
			f.books++
			return errors.Join(tx.Create(&effect{Name: "booked"}).Error, f.at("book"))
		})
	}()
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

func (f *refund) at(step string) error {
	if f.fail == step {
		return errors.New("failed at " + step)
	}
	return nil
}

// CONTRACT X-3
func TestResumeGoesOnAfterTheLastFinishedStep(t *testing.T) {
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		module, err := core.New(core.Config{Store: newStore(t, db), Policy: core.Policy{Recovery: core.Resume},
			ClaimTimeout: 30 * time.Second})
		require.NoError(t, err)
		f := &refund{}
		send := func() *httptest.ResponseRecorder { return serve(t, module, "k-1", f) }
		for _, f.fail = range []string{"reserve", "charge", "charge", "book"} {
			require.Equal(t, http.StatusInternalServerError, send().Code)
		}
		f.fail = ""
		first := send()
		require.Equal(t, http.StatusCreated, first.Code, first.Body)
		require.Equal(t, "created", first.Header().Get("Idempotency-Result"))
		require.Equal(t, "reused", send().Header().Get("Idempotency-Result"))
		require.Equal(t, 2, countEffects(t, db), "reserved and booked, once each")
		require.Equal(t, 3, f.charges, "twice without a known outcome, once with")
		require.Equal(t, f.keys[0], f.keys[2], "one key for the provider in all attempts")
		require.Equal(t, 2, f.books)
	})
}

// serve is an adapter for one request.
func serve(t *testing.T, m *core.Module, key string, h http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	p := core.Principal{Issuer: "https://issuer.example", Subject: "alice"}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/v1/refunds", strings.NewReader(`{"amount":"1.00"}`))
	r.Header.Set("Idempotency-Key", key)
	r, reply := m.Admit(r, "/v1/refunds", p)
	require.Nil(t, reply)
	attempt, reply := m.Begin(r, "/v1/refunds", p)
	if reply != nil {
		require.NoError(t, reply.WriteTo(w))
		return w
	}
	defer func() {
		if p := recover(); p != nil {
			attempt.Panicked(w.Header())
			panic(p)
		}
	}()
	h.ServeHTTP(attempt.Capture(w), attempt.Request())
	if reply := attempt.Finish(); reply != nil {
		require.NoError(t, reply.WriteTo(w))
	}
	return w
}
