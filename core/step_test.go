package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/internal/mustrun"
)

var errProvider = errors.New("the provider does not answer")

// flow is the body of a Resume handler: what it answers, or why it failed.
type flow func(ctx context.Context) (status int, err error)

// newFlowApp mounts a flow on POST /v1/payments. An error is a 500 with its text.
func newFlowApp(t *testing.T, store core.Store, f flow) *app {
	t.Helper()
	return newApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Resume}}, f.ServeHTTP)
}

func (f flow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, err := f(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(status)
}

// charger is a provider that deduplicates by key.
type charger struct {
	mu    sync.Mutex
	keys  []string // of all calls
	moved map[string]int
	fail  error // after the money has moved
}

func (c *charger) charge(_ context.Context, key core.DerivedKey) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moved == nil {
		c.moved = map[string]int{}
	}
	c.keys = append(c.keys, key.UUID())
	if _, done := c.moved[key.UUID()]; !done {
		c.moved[key.UUID()] = len(c.moved) + 1
	}
	return c.moved[key.UUID()], c.fail
}

func (c *charger) calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys)
}

// requireOneCharge checks that the provider was called so often with one key.
func (c *charger) requireOneCharge(t *testing.T, calls int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Len(t, c.keys, calls)
	require.Len(t, c.moved, 1, "one key in all attempts: %v", c.keys)
}

// Rows and the next methods make faultStore a store.Attempts.
func (s *faultStore) Rows() bool { return s.Operations.(store.Attempts).Rows() }

func (s *faultStore) Steps(ctx context.Context, id core.ID) ([]store.StepRecord, error) {
	return through(ctx, s, "steps", func() ([]store.StepRecord, error) { return s.Operations.(store.Attempts).Steps(ctx, id) })
}

func (s *faultStore) Begin(ctx context.Context, c store.Claim) (store.Attempt, store.Claimed, error) {
	if err := s.before(ctx, "claim"); err != nil {
		return nil, store.Claimed{}, err
	}
	segments, claimed, err := s.Operations.(store.Attempts).Begin(ctx, c)
	if err := s.after(ctx, "claim", err); err != nil || segments == nil {
		return nil, claimed, err
	}
	return &faultSegments{segments, s}, claimed, nil
}

func (s *faultStore) InFlight(ctx context.Context, id core.ID) (bool, error) {
	return s.Operations.(store.Attempts).InFlight(ctx, id)
}

// faultSegments call the hooks of their store around a seal: "complete" where it has the answer, "start" where it has the
// start of a call, else "finish".
type faultSegments struct {
	store.Attempt
	store *faultStore
}

func (s *faultSegments) Seal(ctx context.Context, seal store.Seal) (time.Time, error) {
	name := "finish"
	switch {
	case seal.Answer != nil:
		name = "complete"
	case seal.Start != nil:
		name = "start"
	}
	if err := s.store.before(ctx, name); err != nil {
		return time.Time{}, err
	}
	now, err := s.Attempt.Seal(ctx, seal)
	return now, s.store.after(ctx, name, err)
}

// take takes steps of the given names in turn, counts what runs, and fails in the step named fail.
type take struct {
	fail string
	ran  []string
}

func (s *take) steps(ctx context.Context, names ...string) error {
	for _, name := range names {
		err := core.CallDo(ctx, name, func(context.Context, core.DerivedKey) error {
			s.ran = append(s.ran, name)
			if name == s.fail {
				return errProvider
			}
			return nil
		}, core.Dedup(time.Hour))
		if err != nil {
			return err
		}
	}
	return nil
}

// CONTRACT
func TestStepsThatDoNotBegin(t *testing.T) {
	t.Run("step names", func(t *testing.T) {
		var s take
		var errs []error
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			errs = []error{s.steps(ctx, ""), s.steps(ctx, "charge"), s.steps(ctx, "charge"), s.steps(ctx, "a\x00b"),
				s.steps(ctx, "\xff"), s.steps(ctx, strings.Repeat("x", core.MaxStepName+1))}
			return http.StatusCreated, nil
		})
		requireProblem(t, a.post("k-1", `{}`), http.StatusInternalServerError, core.CodeCallUnfinished)
		require.ErrorContains(t, errs[0], "a step needs a name")
		require.NoError(t, errs[1])
		require.ErrorContains(t, errs[2], `two steps are called "charge"`)
		for _, err := range errs[3:] { // the store could not keep it
			require.ErrorContains(t, err, "a name is valid UTF-8 without NUL, of up to 255 bytes")
		}
		require.Equal(t, []string{"charge"}, s.ran, "an error before anything runs")
	})
	t.Run("steps follow each other", func(t *testing.T) {
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			return http.StatusCreated, core.CallDo(ctx, "outer", func(inner context.Context, _ core.DerivedKey) error {
				for _, ctx := range []context.Context{ctx, inner} {
					err := make(chan error)
					go func() {
						err <- core.CallDo(ctx, "inner", func(context.Context, core.DerivedKey) error { return errors.New("it ran") },
							core.Optional())
					}()
					require.ErrorContains(t, <-err, `step "inner" begins while another step is under way`)
				}
				return nil
			})
		})
		w := a.post("k-1", `{}`)
		require.Equal(t, http.StatusCreated, w.Code, w.Body)
	})
	t.Run("a step has so many keys", func(t *testing.T) {
		for made, want := range map[int]string{core.MaxStepKeys: "", core.MaxStepKeys + 1: "make several steps of it"} {
			a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
				err := core.CallDo(ctx, "charge", func(ctx context.Context, _ core.DerivedKey) error {
					for i := range made {
						if _, err := core.DeriveEvent(ctx, strconv.Itoa(i)); err != nil {
							return err
						}
					}
					return nil
				})
				if want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, want)
				}
				return http.StatusCreated, nil
			})
			a.post("k-1", `{}`)
			require.Equal(t, 1, a.ran())
		}
	})
	t.Run("step outside a Resume attempt", func(t *testing.T) {
		step := func(ctx context.Context) error {
			return core.CallDo(ctx, "charge", func(context.Context, core.DerivedKey) error { return errors.New("it ran") })
		}
		require.ErrorContains(t, step(t.Context()), "on a route whose policy says core.Resume")

		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park}}, func(w http.ResponseWriter, r *http.Request) {
			require.ErrorContains(t, step(r.Context()), "on a route whose policy says core.Resume")
			created(w, r)
		})
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
	})
	// A context that was kept, by a goroutine or by mistake, belongs to the attempt it came from and to no other.
	t.Run("step of an attempt that is over", func(t *testing.T) {
		var kept context.Context
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			if kept != nil {
				err := core.CallDo(kept, "charge", func(context.Context, core.DerivedKey) error { return errors.New("it ran") })
				require.ErrorContains(t, err, "the attempt is over")
				err = core.CallDo(kept, "another", func(context.Context, core.DerivedKey) error { return errors.New("it ran") })
				require.ErrorContains(t, err, "the attempt is over")
			}
			kept = context.WithoutCancel(ctx)
			return charge(ctx, &charger{})
		})
		for _, key := range []string{"k-1", "k-2"} {
			w := a.post(key, `{}`)
			require.Equal(t, http.StatusCreated, w.Code, w.Body)
		}
	})
	inBubble(t, "no step begins after the deadline", func(t *testing.T) {
		store := newFaultStore(memstore.New())
		a := newFlowApp(t, store, func(ctx context.Context) (int, error) {
			s := take{}
			require.NoError(t, s.steps(ctx, "charge"))
			<-ctx.Done()
			store.on("start", func(context.Context) error { t.Error("a start is recorded"); return nil })
			err := s.steps(context.WithoutCancel(ctx), "book")
			require.ErrorIs(t, err, context.Cause(ctx))
			require.Equal(t, []string{"charge"}, s.ran)
			return 0, err
		})
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
	})
}

// CONTRACT X-3
func TestResultsOfSteps(t *testing.T) {
	t.Run("step results that cannot be recorded", func(t *testing.T) {
		results := map[string]struct {
			value any
			says  string
		}{
			"no JSON":       {math.NaN(), "cannot be recorded"},
			"above the cap": {strings.Repeat("x", store.MaxStepResult-1), "65537 bytes of JSON, 65536 are allowed"},
		}
		for name, result := range results {
			t.Run(name, func(t *testing.T) {
				a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
					_, err := core.Call(ctx, "charge", func(context.Context, core.DerivedKey) (any, error) { return result.value, nil })
					require.ErrorContains(t, err, `step "charge"`)
					require.ErrorContains(t, err, result.says)
					return http.StatusConflict, nil
				})
				w := a.post("k-1", `{}`)
				require.Equal(t, http.StatusConflict, w.Code)
				require.Contains(t, a.kinds(), core.EventYielded, "the step is unfinished: its 4xx is not recorded")
				require.Equal(t, wire.ResultUnknown, w.Header().Get(wire.HeaderResult), "and it does not pass for an answer")
			})
		}
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			_, err := core.Call(ctx, "charge", func(context.Context, core.DerivedKey) (string, error) {
				return strings.Repeat("x", store.MaxStepResult-2), nil
			})
			return http.StatusCreated, err
		})
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code, "the largest result")
	})
	t.Run("a result that a later attempt would get changed is seen changed in the first", func(t *testing.T) {
		type charge struct {
			ID     string
			status string
		}
		var got []charge
		fail := true
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			c, err := core.Call(ctx, "charge", func(context.Context, core.DerivedKey) (charge, error) {
				return charge{ID: "ch_1", status: "paid"}, nil
			})
			got = append(got, c)
			if err == nil && fail {
				err = errProvider
			}
			return http.StatusCreated, err
		})
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		fail = false
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		require.Equal(t, []charge{{ID: "ch_1"}, {ID: "ch_1"}}, got)
	})
	t.Run("whatever the type, a number keeps its digits, in the first attempt and in the next", func(t *testing.T) {
		type receipt struct {
			ID   any
			Cent int64
			Raw  json.RawMessage
		}
		const big = "9007199254740993"
		fail := true
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			m, err := core.Call(ctx, "map", func(context.Context, core.DerivedKey) (map[string]any, error) {
				return map[string]any{"id": json.Number(big), "rate": json.Number("1.10"), "deep": []any{int64(9007199254740993)}}, nil
			})
			require.NoError(t, err)
			require.Equal(t, map[string]any{"id": json.Number(big), "rate": json.Number("1.10"), "deep": []any{json.Number(big)}}, m)
			r, err := core.Call(ctx, "struct", func(context.Context, core.DerivedKey) (receipt, error) {
				return receipt{ID: uint64(9007199254740993), Cent: 9007199254740993, Raw: json.RawMessage(big)}, nil
			})
			require.NoError(t, err)
			require.Equal(t, receipt{ID: json.Number(big), Cent: 9007199254740993, Raw: json.RawMessage(big)}, r)
			f, err := core.Call(ctx, "float", func(context.Context, core.DerivedKey) (float64, error) { return 0.1, nil })
			require.NoError(t, err)
			require.Equal(t, 0.1, f) //nolint:testifylint // exactly
			if fail {
				return 0, errProvider
			}
			return http.StatusCreated, nil
		})
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		fail = false
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
	})
	// A release that has changed a result's type must not take a finished step for one that failed for good.
	t.Run("step result of another type", func(t *testing.T) {
		calls, readable := 0, false
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			if !readable {
				_, err := core.Call(ctx, "charge", func(context.Context, core.DerivedKey) (unreadable, error) { calls++; return unreadable{}, nil })
				require.ErrorContains(t, err, `step "charge": its recorded result is no *core_test.unreadable`)
				return http.StatusUnprocessableEntity, nil
			}
			_, err := core.Call(ctx, "charge", func(context.Context, core.DerivedKey) (struct{}, error) { calls++; return struct{}{}, nil })
			return http.StatusCreated, err
		})
		for range 2 {
			require.Equal(t, http.StatusUnprocessableEntity, a.post("k-1", `{}`).Code)
		}
		readable = true
		require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Equal(t, 1, calls, "it was finished by the first attempt")
	})
}

// unreadable can be written as JSON but not read.
type unreadable struct{}

func (*unreadable) UnmarshalJSON([]byte) error { return errors.New("unreadable") }

var _ json.Unmarshaler = (*unreadable)(nil)

// CONTRACT X-3
func TestChangedStepsAreRefused(t *testing.T) {
	before := []string{"reserve", "charge", "book"}
	changes := map[string][]string{
		"fewer":    {"reserve"},
		"left out": {"reserve", "book"},
		"none":     {},
		"more":     {"reserve", "check", "charge", "book"},
		"renamed":  {"reserve", "pay", "book"},
		"in front": {"check", "reserve", "charge", "book"},
		"only new": {"check"},
	}
	for name, changed := range changes {
		for _, swallows := range []bool{false, true} {
			inBubble(t, name, func(t *testing.T) {
				s := take{fail: "book"}
				names := before
				a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
					err := s.steps(ctx, names...)
					if swallows && errors.Is(err, core.ErrStepsChanged) {
						err = nil
					}
					return http.StatusCreated, err
				})
				require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
				require.Equal(t, before, s.ran)

				names, s.fail = changed, ""
				for range 2 {
					w := a.post("k-1", `{}`)
					requireProblem(t, w, http.StatusInternalServerError, core.CodeStepsChanged)
					require.Equal(t, "unknown", w.Header().Get("Idempotency-Result"))
					require.Contains(t, w.Body.String(), `"safe_new_key":false`)
					require.Empty(t, w.Header().Get("Retry-After"), "a repeat only helps with the old steps")
				}
				require.Subset(t, before, s.ran, "no new step runs before those that were there")

				names = before
				time.Sleep(store.DefaultPause)
				require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code, "the old steps again go on")
				require.Equal(t, "book", s.ran[len(s.ran)-1])
				require.Equal(t, before, slices.Compact(s.ran), "and no finished step runs again")
			})
		}
	}
}

// A handler that goes on after ErrStepsChanged takes no other step in this attempt.
//
// CONTRACT X-3
func TestNoStepAfterAChangedOne(t *testing.T) {
	reserve := func(ctx context.Context) error {
		return core.CallDo(ctx, "reserve", func(ctx context.Context, _ core.DerivedKey) error {
			_, err := core.DeriveEvent(ctx, "reserved")
			return err
		})
	}
	each(t, map[string]func(ctx context.Context) error{
		"a new step": func(ctx context.Context) error { return (&take{}).steps(ctx, "check") },
		"an event of a later step": func(ctx context.Context) error {
			_, err := core.DeriveEvent(ctx, "reserved")
			require.NoError(t, err)
			return reserve(ctx)
		},
	}, func(t *testing.T, change func(ctx context.Context) error) {
		s, attempts := take{fail: "charge"}, 0
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			if attempts++; attempts == 1 {
				require.NoError(t, reserve(ctx))
				return http.StatusCreated, s.steps(ctx, "charge")
			}
			require.ErrorIs(t, change(ctx), core.ErrStepsChanged)
			require.ErrorIs(t, s.steps(ctx, "charge"), core.ErrStepsChanged)
			return http.StatusCreated, nil
		})
		a.post("k-1", `{}`)
		requireProblem(t, a.post("k-1", `{}`), http.StatusInternalServerError, core.CodeStepsChanged)
		require.Equal(t, []string{"charge"}, s.ran)
		require.Equal(t, 2, attempts)
	})
}

// book is a database step without rows.
func book(ctx context.Context, name string, fail error) error {
	_, err := core.Step(ctx, name, func(context.Context) (struct{}, error) { return struct{}{}, fail })
	return err
}

// sealed is a Resume handler that has committed a segment when h begins. Each attempt of an operation must be sealed, or none.
func sealed(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if recovery, _ := core.RecoveryOf(r.Context()); recovery == core.Resume {
			if err := cmpErr(book(r.Context(), "sealed", nil), core.Checkpoint(r.Context())); err != nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
		}
		h(w, r)
	}
}

// tolerated makes an optional call that fails, and goes on.
func tolerated(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	err := core.CallDo(ctx, name, func(context.Context, core.DerivedKey) error { return errProvider }, core.Optional())
	require.ErrorIs(t, err, errProvider)
}

// The step before a call failed and was tolerated, and is left out by the next attempt: the call has another place then,
// and is the same call.
//
// CONTRACT X-3
func TestStepThatMoves(t *testing.T) {
	each(t, map[string]error{"finished": nil, "unknown": errProvider}, func(t *testing.T, fails error) {
		p := &charger{fail: fails}
		first := true
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			if first {
				tolerated(ctx, t, "optional")
			}
			status, err := charge(ctx, p) // the provider does not deduplicate
			if first {
				err = errProvider
			}
			return status, err
		})
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		p.fail, first = nil, false
		w := a.post("k-1", `{}`)
		p.requireOneCharge(t, 1)
		if fails == nil {
			requireProblem(t, w, http.StatusInternalServerError, core.CodeStepsChanged) // the tolerated step is missing
		} else {
			requireProblem(t, w, http.StatusConflict, core.CodeOutcomeUnknown)
		}
	})
}

// CONTRACT X-3
func TestStepsOfTheNextAttempt(t *testing.T) {
	t.Run("steps may change places", func(t *testing.T) {
		s := take{fail: "book"}
		names := []string{"reserve", "charge", "book"}
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) { return http.StatusCreated, s.steps(ctx, names...) })
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		names, s.fail = []string{"charge", "book", "reserve", "notify"}, ""
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code, "and a new one comes after them")
		require.Equal(t, []string{"reserve", "charge", "book", "book", "notify"}, s.ran)
	})
	// A finished step is not handed back as the result of another kind: its rows were never written, or its call never made.
	t.Run("step of another kind", func(t *testing.T) {
		for _, finished := range []bool{true, false} {
			s := take{}
			ran, database := false, false
			a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
				if !database {
					if s.fail = "charge"; finished {
						s.fail = "book"
					}
					return http.StatusCreated, s.steps(ctx, "charge", "book")
				}
				_, err := core.Step(ctx, "charge", func(context.Context) (int, error) { ran = true; return 0, nil })
				require.ErrorIs(t, err, core.ErrStepsChanged)
				return http.StatusCreated, nil
			})
			a.post("k-1", `{}`)
			database = true
			requireProblem(t, a.post("k-1", `{}`), http.StatusInternalServerError, core.CodeStepsChanged)
			require.False(t, ran)
		}
	})
	t.Run("rows that were written under one name would be written again under another", func(t *testing.T) {
		var ran []string
		names := []string{"book", "settle"}
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			for _, name := range names {
				_, err := core.Step(ctx, name, func(context.Context) (int, error) {
					if ran = append(ran, name); name == "settle" {
						return 0, errProvider
					}
					return 0, nil
				})
				if err == nil {
					err = core.Checkpoint(ctx)
				}
				if err != nil {
					return 0, err
				}
			}
			return http.StatusCreated, nil
		})
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		names = []string{"book entries", "settle"}
		requireProblem(t, a.post("k-1", `{}`), http.StatusInternalServerError, core.CodeStepsChanged)
		require.Equal(t, []string{"book", "settle"}, ran)
	})
	// An attempt that fails before it has come as far as the one before has not changed its steps; and one that comes
	// further has neither.
	inBubble(t, "attempts of different length", func(t *testing.T) {
		var s take
		stop := 3
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			if err := s.steps(ctx, []string{"1", "2", "3", "4"}[:stop]...); err != nil {
				return 0, err
			}
			if stop < 4 {
				return 0, errProvider
			}
			return http.StatusCreated, nil
		})
		for _, stop = range []int{3, 1, 0} {
			w := a.post("k-1", `{}`)
			require.Equal(t, http.StatusInternalServerError, w.Code)
			require.Contains(t, w.Body.String(), errProvider.Error())
		}
		time.Sleep(store.DefaultPause)
		stop = 4
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		require.Equal(t, []string{"1", "2", "3", "4"}, s.ran)
	})
	// A handler may go on after a step has failed. The next attempt takes it again, before those that came behind it.
	t.Run("steps after one that failed", func(t *testing.T) {
		var s take
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			err := core.CallDo(ctx, "optional", func(context.Context, core.DerivedKey) error { return errProvider },
				core.Dedup(time.Hour), core.Optional())
			require.ErrorIs(t, err, errProvider)
			return http.StatusCreated, s.steps(ctx, "charge", "book")
		})
		s.fail = "book"
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		s.fail = ""
		w := a.post("k-1", `{}`)
		require.Equal(t, http.StatusCreated, w.Code, w.Body)
		require.Equal(t, []string{"charge", "book", "book"}, s.ran)
	})
}

// A step ends with its attempt, whatever context the handler gives to it.
//
// CONTRACT X-1
func TestStepEndsWithItsAttempt(t *testing.T) {
	inBubble(t, "a context without end", func(t *testing.T) {
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			n, err := core.Step(context.WithoutCancel(ctx), "1", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, context.Cause(ctx)
			})
			return n, err
		})
		begun := time.Now()
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		require.Equal(t, store.DefaultDeadline, time.Since(begun))
	})
}

// An event in front of a step is none of the step's, and the next attempt makes it again.
//
// CONTRACT
func TestEventInFrontOfAStep(t *testing.T) {
	fail := errProvider
	a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
		_, err := core.DeriveEvent(ctx, "begun")
		return http.StatusCreated, cmpErr(err, book(ctx, "1", nil), core.Checkpoint(ctx), fail)
	})
	require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
	fail = nil
	requireCreated(t, a.post("k-1", `{}`), "created")
}

// CONTRACT
func TestUnfinishedStepIsCalledAgain(t *testing.T) {
	for name, fault := range map[string]func(ctx context.Context, err error) error{
		"an error":                       func(_ context.Context, err error) error { return err },
		"a panic":                        func(_ context.Context, err error) error { panic(err) },
		"a timeout after having charged": func(ctx context.Context, _ error) error { <-ctx.Done(); return context.Cause(ctx) },
	} {
		inBubble(t, name, func(t *testing.T) {
			p := &charger{fail: errProvider}
			a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
				_, err := core.Call(ctx, "charge", func(ctx context.Context, key core.DerivedKey) (int, error) {
					n, err := p.charge(ctx, key)
					if err != nil {
						err = fault(ctx, err)
					}
					return n, err
				}, core.Dedup(time.Hour))
				return http.StatusCreated, err
			})
			if w := a.postRecovered("k-1", `{}`); name != "a panic" {
				require.Equal(t, http.StatusInternalServerError, w.Code)
			}
			require.Contains(t, a.kinds(), core.EventYielded)
			p.fail = nil
			require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code, "at once, without waiting for the lease")
			require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
			p.requireOneCharge(t, 2)
		})
	}
}

// charge is a handler of one provider step.
func charge(ctx context.Context, p *charger, opts ...core.CallOption) (int, error) {
	_, err := core.Call(ctx, "charge", p.charge, opts...)
	return http.StatusCreated, err
}

// CONTRACT X-3, M-4, X-7, F-1, X-1, X-2
func TestCallsThatDoNotFinish(t *testing.T) {
	inBubble(t, "without dedup the operation is parked", func(t *testing.T) {
		p, wentOn := &charger{fail: errProvider}, mustrun.New(t)
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			status, err := charge(ctx, p)
			if errors.Is(err, core.ErrStepUnknown) {
				wentOn()
				require.ErrorIs(t, core.CallDo(ctx, "book", func(context.Context, core.DerivedKey) error { return nil }), core.ErrStepUnknown,
					"no step after it")
				return http.StatusAccepted, nil // it counts for nothing that the handler is content
			}
			return status, err
		})
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		for range 2 {
			w := a.post("k-1", `{}`)
			requireProblem(t, w, http.StatusConflict, core.CodeOutcomeUnknown)
			require.Contains(t, w.Body.String(), `"safe_new_key":false`)
			require.Empty(t, w.Header().Get("Retry-After"))
		}
		p.requireOneCharge(t, 1)

		time.Sleep(store.DefaultDeadline)
		a.settle("k-1", &core.Answer{Status: http.StatusCreated})
		require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		p.requireOneCharge(t, 1)
	})
	inBubble(t, "no call without its start recorded", func(t *testing.T) {
		st := newFaultStore(memstore.New())
		p := &charger{}
		a := newFlowApp(t, st, func(ctx context.Context) (int, error) { return charge(ctx, p) })
		st.on("start", away)
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		require.Zero(t, p.calls())

		// The lease is lost while the store takes its time: the start lands, but nobody calls any more.
		landed := false
		st.on("start", func(context.Context) error {
			time.Sleep(store.DefaultLease * 2 / 3)
			landed = true
			return nil
		})
		require.Equal(t, http.StatusInternalServerError, a.post("k-2", `{}`).Code)
		require.Contains(t, a.kinds(), core.EventLeaseLost)
		require.True(t, landed)
		require.Zero(t, p.calls())
	})
	inBubble(t, "steps that cannot be read", func(t *testing.T) {
		store := newFaultStore(memstore.New())
		s := take{fail: "book"}
		a := newFlowApp(t, store, func(ctx context.Context) (int, error) {
			return http.StatusCreated, s.steps(ctx, "charge", "book")
		})
		a.post("k-1", `{}`)
		s.fail = ""
		store.on("steps", away)
		requireProblem(t, a.post("k-1", `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.Equal(t, []string{"charge", "book"}, s.ran)
		store.on("steps", nil)
		synctest.Wait()
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code, "at once: the claim was taken back")
		require.Equal(t, []string{"charge", "book", "book"}, s.ran)
	})
	inBubble(t, "lease lost during a provider call", func(t *testing.T) {
		store := newFaultStore(memstore.New()).on("renew", away)
		var heeds bool
		a := newFlowApp(t, store, func(ctx context.Context) (int, error) {
			_, err := core.Call(ctx, "charge", func(ctx context.Context, key core.DerivedKey) (int, error) {
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), core.ErrLeaseLost)
				if heeds {
					return 0, context.Cause(ctx)
				}
				return 1, nil
			}, core.Dedup(time.Hour))
			if err == nil {
				err := core.CallDo(ctx, "mail", func(context.Context, core.DerivedKey) error { return errors.New("it ran") },
					core.Optional())
				require.ErrorIs(t, err, core.ErrLeaseLost, "no step begins after the lease is lost")
			}
			return http.StatusCreated, err
		})
		require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"),
			"an owner that wakes up late and unsettled may still complete")
		require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		heeds = true
		require.Equal(t, http.StatusInternalServerError, a.post("k-2", `{}`).Code)
	})
	t.Run("an optional call that may not be repeated does not park the operation", func(t *testing.T) {
		s := take{fail: "book"}
		var errs []error
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			errs = append(errs, core.CallDo(ctx, "mail", func(context.Context, core.DerivedKey) error { return errProvider },
				core.Optional()))
			return http.StatusCreated, s.steps(ctx, "book")
		})
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		s.fail = ""
		require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.ErrorIs(t, errs[0], errProvider)
		require.ErrorIs(t, errs[1], core.ErrStepUnknown)
	})
	t.Run("recovered panic of a step is unfinished", func(t *testing.T) {
		a := newFlowApp(t, nil, nil)
		a.handler = func(w http.ResponseWriter, r *http.Request) {
			func() {
				defer func() { _ = recover() }()
				_ = core.CallDo(r.Context(), "charge", func(context.Context, core.DerivedKey) error { panic("boom") }, core.Dedup(time.Hour))
			}()
			w.WriteHeader(http.StatusPaymentRequired)
		}
		for range 2 {
			require.Equal(t, http.StatusPaymentRequired, a.post("k-1", `{}`).Code)
		}
		require.Equal(t, 2, a.ran(), "whether it took effect is not known: a refusal is not final")
	})
}

// The window is the store's to measure: every instance of the app may be wrong about the time. Nor does a clock that is
// behind say how old a start is.
//
// CONTRACT X-3, T-1, T-5
func TestDedupWindowGoesByTheStoresClock(t *testing.T) {
	for name, off := range map[string]time.Duration{
		"right": 0, "10 minutes behind": 10 * time.Minute, "10 minutes ahead": -10 * time.Minute,
	} {
		inBubble(t, "the app's clock is "+name, func(t *testing.T) {
			store := memstore.New(memstore.WithClock(func() time.Time { return time.Now().Add(off) }))
			p := &charger{fail: errProvider}
			a := newFlowApp(t, store, func(ctx context.Context) (int, error) {
				return charge(ctx, p, core.Dedup(5*time.Minute))
			})
			for range 3 { // at 0, 2 and 4 minutes after the first start, which later ones do not move
				require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
				time.Sleep(2 * time.Minute)
			}
			p.requireOneCharge(t, 3)
			p.fail = nil
			requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
			p.requireOneCharge(t, 3)
		})
	}
	inBubble(t, "the store's clock is behind the start when it is read", func(t *testing.T) {
		clock, p := &drifting{}, &charger{fail: errProvider}
		a := newFlowApp(t, memstore.New(memstore.WithClock(clock.now)), func(ctx context.Context) (int, error) {
			defer clock.by(-30 * time.Minute) // within the bound, so that the next attempt may begin
			return charge(ctx, p, core.Dedup(5*time.Minute))
		})
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		time.Sleep(20 * time.Minute)
		p.fail = nil
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
		p.requireOneCharge(t, 1)
	})
	// The commit in front of a repeated call takes its time: the window is over when the call could be made.
	inBubble(t, "the window ends during the commit at the call", func(t *testing.T) {
		st, p := newFaultStore(memstore.New()), &charger{fail: errProvider}
		a := newFlowApp(t, st, func(ctx context.Context) (int, error) {
			mailed := core.CallDo(ctx, "mail", func(context.Context, core.DerivedKey) error { return p.fail }, core.Dedup(time.Hour))
			status, err := charge(ctx, p, core.Dedup(30*time.Second))
			return status, cmpErr(mailed, err)
		})
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		time.Sleep(25 * time.Second)
		p.fail = nil
		st.on("start", func(context.Context) error { time.Sleep(10 * time.Second); return nil })
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
		p.requireOneCharge(t, 1)
	})
}

// CONTRACT X-3
func TestStoreIsLostBetweenTheProvidersAnswerAndItsRecord(t *testing.T) {
	eachInBubble(t, map[string]string{"before it has landed": "", "after": "after "}, func(t *testing.T, landed string) {
		st := newFaultStore(memstore.New())
		p := &charger{}
		a := newFlowApp(t, st, func(ctx context.Context) (int, error) { return charge(ctx, p, core.Dedup(time.Hour)) })
		tries := map[string]int{}
		for _, call := range []string{"complete", "finish"} { // with the answer, then alone
			st.on(landed+call, func(context.Context) error { tries[call]++; return errAway })
		}
		requireProblem(t, a.post("k-1", `{}`), http.StatusServiceUnavailable, core.CodeCommitUnconfirmed)
		require.Greater(t, tries["complete"], 3, "a charge is worth more than one try")
		st.on(landed+"complete", nil)
		st.on(landed+"finish", nil)
		time.Sleep(store.DefaultLease)
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		p.requireOneCharge(t, map[bool]int{true: 2, false: 1}[landed == ""])
	})
	inBubble(t, "for a moment", func(t *testing.T) {
		st := newFaultStore(memstore.New())
		p := &charger{}
		a := newFlowApp(t, st, func(ctx context.Context) (int, error) { return charge(ctx, p) })
		st.failFirst("finish", 3)
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		p.requireOneCharge(t, 1)
	})
}

// CONTRACT X-2
func TestStaleAttemptRecordsNothing(t *testing.T) {
	t.Run("its handler goes on as if nothing had happened", func(t *testing.T) {
		staleAttempt(t, func(error) (int, error) { return http.StatusAccepted, nil })
	})
	t.Run("its handler fails", func(t *testing.T) {
		staleAttempt(t, func(err error) (int, error) { return 0, err })
	})
}

func staleAttempt(t *testing.T, end func(err error) (status int, _ error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := newFaultStore(memstore.New())
		p := &charger{}
		asleep, wake := make(chan struct{}), make(chan struct{})
		attempts := 0
		a := newFlowApp(t, st, func(ctx context.Context) (int, error) {
			attempts++
			first := attempts == 1
			_, err := core.Call(ctx, "charge", func(ctx context.Context, key core.DerivedKey) (int, error) {
				n, err := p.charge(ctx, key)
				if first {
					close(asleep)
					<-wake
				}
				return n, err
			}, core.Dedup(time.Hour))
			if first {
				require.NoError(t, err, "its result becomes durable with the next seal")
				return end(errProvider)
			}
			return http.StatusCreated, err
		})
		st.on("renew", away)
		var late *httptest.ResponseRecorder
		var wg sync.WaitGroup
		wg.Go(func() { late = a.post("k-1", `{}`) })
		<-asleep
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeInFlight)
		time.Sleep(store.DefaultLease)
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		st.on("renew", nil)
		close(wake)
		wg.Wait()
		require.Equal(t, http.StatusCreated, late.Code, "the recorded answer")
		require.Equal(t, "reused", late.Header().Get("Idempotency-Result"))
		require.Contains(t, a.kinds(), core.EventStale)
		p.requireOneCharge(t, 2)
	})
}

// A call that has failed may have taken effect. Apps that answer every failure with 200 and a code in the body would end
// the operation with it.
//
// CONTRACT
func TestAnswersWhileACallIsUnfinished(t *testing.T) {
	refused := func(ctx context.Context, _ ...core.CallOption) error { // before it runs: its name is taken
		fine := func(context.Context, core.DerivedKey) error { return nil }
		return cmpErr(core.CallDo(ctx, "charge", fine), core.CallDo(ctx, "charge", fine))
	}
	fails := func(ctx context.Context, opts ...core.CallOption) error {
		return core.CallDo(ctx, "charge", func(context.Context, core.DerivedKey) error { return errProvider },
			append(opts, core.Dedup(time.Hour))...)
	}
	for name, test := range map[string]struct {
		call     func(ctx context.Context, opts ...core.CallOption) error
		opts     []core.CallOption
		failed   bool // core.Failed
		status   int  // that the handler answers with
		first    int  // that the client gets
		result   string
		recovers bool // the next attempt runs
	}{
		"200":                    {fails, nil, false, 200, 500, "unknown", true},
		"201":                    {fails, nil, false, 201, 500, "unknown", true},
		"303":                    {fails, nil, false, 303, 500, "unknown", true},
		"402":                    {fails, nil, false, 402, 402, "unknown", true},
		"502":                    {fails, nil, false, 502, 502, "unknown", true},
		"200 refused":            {refused, nil, false, 200, 500, "unknown", true},
		"200 declared a failure": {fails, nil, true, 200, 200, "unknown", true},
		"201 optional":           {fails, []core.CallOption{core.Optional()}, false, 201, 201, "created", false},
		"402 optional":           {fails, []core.CallOption{core.Optional()}, false, 402, 402, "created", false},
		"502 optional":           {fails, []core.CallOption{core.Optional()}, false, 502, 502, "unknown", true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
				require.Error(t, test.call(ctx, test.opts...))
				if test.failed {
					core.Failed(ctx)
				}
				return test.status, nil
			})
			first := a.post("k-1", `{}`)
			if test.first == http.StatusInternalServerError {
				requireProblem(t, first, http.StatusInternalServerError, core.CodeCallUnfinished)
				require.Equal(t, "2", first.Header().Get("Retry-After"))
				require.Contains(t, first.Body.String(), `"safe_new_key":false`)
				require.Len(t, a.of(core.EventRefused), 1)
				require.Error(t, a.of(core.EventYielded)[0].Err)
			}
			require.Equal(t, test.first, first.Code)
			require.Equal(t, test.result, first.Header().Get("Idempotency-Result"))
			second := a.post("k-1", `{}`)
			require.Equal(t, test.first, second.Code)
			require.Equal(t, test.recovers, a.ran() == 2)
			require.Equal(t, !test.recovers, second.Header().Get("Idempotency-Result") == "reused")
		})
	}
}

// A call that still runs when the handler has answered has not finished either.
//
// CONTRACT X-3
func TestAnswerBeforeACallHasReturned(t *testing.T) {
	each(t, map[string][]core.CallOption{"call": nil, "optional": {core.Optional()}}, func(t *testing.T, opts []core.CallOption) {
		var wg sync.WaitGroup
		leave := make(chan struct{})
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			begun := make(chan struct{})
			wg.Go(func() {
				_ = core.CallDo(ctx, "charge", func(context.Context, core.DerivedKey) error {
					close(begun)
					<-leave
					return nil
				}, opts...)
			})
			<-begun
			return http.StatusCreated, nil
		})
		first := a.post("k-1", `{}`)
		close(leave)
		wg.Wait()
		if opts == nil {
			requireProblem(t, first, http.StatusInternalServerError, core.CodeCallUnfinished)
		} else {
			require.Equal(t, "created", first.Header().Get("Idempotency-Result"))
		}
	})
}

// A client that gets a 5xx after a call has begun must not pay with a new key.
//
// CONTRACT X-3, C-4
func TestFailuresAfterACallSayUnknown(t *testing.T) {
	for name, test := range map[string]struct {
		names    []string
		result   string
		panics   bool
		written  int // the status in front of a panic
		attempts int // MaxAttempts
	}{
		"before any step":             {nil, "", false, 0, 0},
		"after a call":                {[]string{"charge"}, "unknown", false, 0, 0},
		"panic before any step":       {nil, "", true, 0, 0},
		"panic after a call":          {[]string{"charge"}, "unknown", true, 0, 0},
		"panic after call and answer": {[]string{"charge"}, "unknown", true, http.StatusCreated, 0},
		"panic of the last attempt":   {[]string{"charge"}, "unknown", true, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := take{}
			policy := core.Policy{Recovery: core.Resume, MaxAttempts: test.attempts}
			a := newApp(t, core.Config{Policy: policy}, func(w http.ResponseWriter, r *http.Request) {
				require.NoError(t, s.steps(r.Context(), test.names...))
				if test.written != 0 {
					w.WriteHeader(test.written)
				}
				if test.panics {
					panic("boom")
				}
				w.WriteHeader(http.StatusBadGateway)
			})
			w, _ := a.serveOnce("k-1")
			require.Equal(t, test.result, w.Header().Get("Idempotency-Result"))
			if test.result != "" && test.attempts == 0 {
				require.Equal(t, "2", w.Header().Get("Retry-After"), "a repeat continues")
			} else {
				require.Empty(t, w.Header().Get("Retry-After"))
			}
		})
	}
	inBubble(t, "panic after a seal whose outcome is not known", func(t *testing.T) {
		st := newFaultStore(memstore.New())
		a := newFlowApp(t, st, func(ctx context.Context) (int, error) {
			require.NoError(t, (&take{}).steps(ctx, "charge"))
			st.on("start", func(context.Context) error { return core.ErrUnconfirmed })
			require.ErrorIs(t, (&take{}).steps(ctx, "ship"), core.ErrUnconfirmed)
			panic("boom")
		})
		w, _ := a.serveOnce("k-1")
		require.Equal(t, "unknown", w.Header().Get("Idempotency-Result"))
		require.Equal(t, "2", w.Header().Get("Retry-After"))
	})
	// A repeat gets the answer of the attempt that took it over. The 500 of who recovers the panic is not that answer.
	inBubble(t, "panic of an attempt that was taken over", func(t *testing.T) {
		st := newFaultStore(memstore.New()).on("renew", away)
		a := newApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume}}, nil)
		a.handler = sealed(func(http.ResponseWriter, *http.Request) {
			a.handler = sealed(created)
			time.Sleep(store.DefaultLease)
			w, _ := a.serveOnce("k-1")
			requireCreated(t, w, "created")
			st.on("renew", nil)
			panic("boom")
		})
		w, panicked := a.serveOnce("k-1")
		require.Equal(t, "boom", panicked)
		require.Equal(t, "unknown", w.Header().Get("Idempotency-Result"))
		require.Equal(t, "2", w.Header().Get("Retry-After"))
		w, _ = a.serveOnce("k-1")
		requireCreated(t, w, "reused")
	})
	t.Run("an attempt before has called", func(t *testing.T) {
		s, names := take{}, []string{"charge"}
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			require.NoError(t, s.steps(ctx, names...))
			return http.StatusBadGateway, nil
		})
		a.post("k-1", `{}`)
		names = nil
		require.Equal(t, "unknown", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
	})
	t.Run("panic because the steps have changed", func(t *testing.T) { // a repeat would only use the attempts up
		s, names := take{}, []string{"charge"}
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			if err := s.steps(ctx, names...); err != nil {
				panic(err)
			}
			return http.StatusBadGateway, nil
		})
		_, _ = a.serveOnce("k-1")
		names = []string{"pay"}
		w, _ := a.serveOnce("k-1")
		require.Equal(t, "unknown", w.Header().Get("Idempotency-Result"))
		require.Empty(t, w.Header().Get("Retry-After"))
	})
}

// CONTRACT R-6
func TestNotAppliedInResume(t *testing.T) {
	none := func(context.Context) error { return nil }
	calls := func(ctx context.Context) error { return (&take{}).steps(ctx, "charge") }
	fails := func(ctx context.Context) error { return (&take{fail: "charge"}).steps(ctx, "charge") }
	books := func(ctx context.Context) error { return book(ctx, "book", nil) }
	seals := func(ctx context.Context) error { return cmpErr(books(ctx), core.Checkpoint(ctx)) }
	tolerates := func(ctx context.Context) error { tolerated(ctx, t, "score"); return nil }
	panics := func(ctx context.Context) error {
		defer func() { _ = recover() }()
		core.NotApplied(ctx) // before it calls
		return core.CallDo(ctx, "charge", func(context.Context, core.DerivedKey) error { panic("boom") })
	}
	const free, recorded, unknown, changed = "free", "recorded", "unknown", "changed"
	for name, test := range map[string]struct {
		before func(ctx context.Context) error // of the attempt before, which failed then
		done   func(ctx context.Context) error // of the attempt that says that nothing was applied
		want   string
	}{
		"before any step": {nil, none, free},
		"after a database step that nobody has sealed":               {nil, books, free},
		"after a finished call":                                      {nil, calls, recorded},
		"after an optional call":                                     {nil, tolerates, recorded},
		"after a checkpoint":                                         {nil, seals, recorded},
		"after a call that is finished since an attempt before":      {calls, calls, recorded},
		"after a call whose outcome is unknown":                      {nil, fails, unknown},
		"after a panic of the call":                                  {nil, panics, unknown},
		"after a call that an attempt before has made too":           {fails, fails, unknown},
		"before a call that an attempt before has finished":          {calls, none, changed},
		"before a call that an attempt before has made":              {fails, none, changed},
		"before a database step that an attempt before has finished": {seals, none, changed},
	} {
		t.Run(name, func(t *testing.T) {
			crash := test.before != nil
			a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
				if crash {
					return 0, cmpErr(test.before(ctx), errProvider)
				}
				_ = test.done(ctx)
				core.NotApplied(ctx)
				return http.StatusPaymentRequired, nil
			})
			if crash {
				a.post("k-1", `{}`)
				crash = false
			}
			first, other := a.post("k-1", `{}`), a.post("k-1", `{"another":"command"}`)
			if test.want == changed {
				requireProblem(t, first, http.StatusInternalServerError, core.CodeStepsChanged)
			} else {
				require.Equal(t, http.StatusPaymentRequired, first.Code)
				require.Equal(t, test.want == recorded, first.Header().Get("Idempotency-Result") == "created")
				require.Equal(t, test.want != free, len(a.of(core.EventNotAppliedRefused)) > 0)
			}
			if test.want == free {
				require.Equal(t, http.StatusPaymentRequired, other.Code)
				return
			}
			requireProblem(t, other, http.StatusConflict, core.CodeKeyReused)
			require.Empty(t, a.of(core.EventFreed))
			require.Equal(t, test.want == recorded, a.post("k-1", `{}`).Header().Get("Idempotency-Result") == "reused")
		})
	}
	t.Run("and the next attempt is judged anew", func(t *testing.T) {
		s := &take{fail: "charge"}
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			if s.steps(ctx, "charge") != nil {
				core.NotApplied(ctx)
			}
			return http.StatusPaymentRequired, nil
		})
		a.post("k-1", `{}`)
		s.fail = ""
		require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
	})
}

// cmpErr returns the first error there is.
func cmpErr(errs ...error) error {
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}

// CONTRACT X-1
func TestLeaseThatIsGivenBack(t *testing.T) {
	inBubble(t, "a renewal that is under way when the attempt ends must not take the lease that is being given back", func(t *testing.T) {
		st := newFaultStore(memstore.New())
		renewals := 0
		st.on("renew", func(context.Context) error {
			if renewals++; renewals == 1 {
				time.Sleep(500 * time.Millisecond)
			}
			return nil
		})
		a := newFlowApp(t, st, nil)
		a.handler = sealed(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(store.DefaultLease/3 + 100*time.Millisecond) // the first renewal is on its way
			w.WriteHeader(http.StatusBadGateway)
		})
		require.Equal(t, http.StatusBadGateway, a.post("k-1", `{}`).Code)
		a.handler = sealed(created)
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		require.Equal(t, 2, renewals)
	})
	// Nor must a renewal begin while the store does not yet take the lease back: it could arrive after that.
	inBubble(t, "no renewal begins after the lease was given up", func(t *testing.T) {
		const lease = 3 * time.Second
		store, begun := newFaultStore(memstore.New()), time.Now()
		var calls list[time.Duration]
		store.on("renew", func(context.Context) error {
			calls.add(time.Since(begun))
			if time.Since(begun) <= lease/3 {
				return errAway
			}
			return nil
		})
		a := newApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Resume, Lease: lease}}, sealed(status(502)))
		require.Equal(t, http.StatusBadGateway, a.post("k-1", `{}`).Code)
		require.Greater(t, len(calls.all()), 1, "it is given back until the store answers")
		require.NotContains(t, calls.all(), lease/3, "when the first renewal would be due")
	})
}

// forgetful is a store whose list of steps lacks what an attempt before has recorded.
type forgetful struct{ *faultStore }

func (forgetful) Steps(context.Context, core.ID) ([]store.StepRecord, error) { return nil, nil }

// CONTRACT X-3, C-5
func TestKeysOfSteps(t *testing.T) {
	t.Run("key of a provider step", func(t *testing.T) {
		var keys []string
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			operation, _ := core.Operation(ctx)
			for _, name := range []string{"charge", "book"} {
				err := core.CallDo(ctx, name, func(_ context.Context, key core.DerivedKey) error {
					require.Equal(t, operation.DeriveStep(name), key, "what a reconciler asks the provider for")
					require.Len(t, key.String(), 64)
					require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, key.UUID())
					keys = append(keys, key.UUID(), key.String())
					return nil
				})
				require.NoError(t, err)
			}
			return http.StatusCreated, nil
		})
		a.post("k-1", `{}`)
		a.post("k-2", `{}`)
		slices.Sort(keys)
		require.Len(t, slices.Compact(keys), 8, "two operations, two steps, two formats")
	})
	t.Run("a message that is processed inside a step has keys of its own", func(t *testing.T) {
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			return http.StatusCreated, core.CallDo(ctx, "charge", func(ctx context.Context, _ core.DerivedKey) error {
				inside, err := core.DeriveCall(ctx, "mail")
				require.NoError(t, err)
				message, end := core.WithMessage(ctx, core.ID{1}, [32]byte{})
				defer end()
				of, err := core.DeriveCall(message, "mail")
				require.NoError(t, err)
				require.Equal(t, core.ID{1}.DeriveCall("mail"), of)
				require.NotEqual(t, inside, of)
				return nil
			})
		})
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
	})
	t.Run("a step that has finished keeps the keys of its calls and events: no later attempt reuses them", func(t *testing.T) {
		attempts := 0
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			attempts++
			err := core.CallDo(ctx, "charge", func(ctx context.Context, _ core.DerivedKey) error {
				_, err := core.DeriveEvent(ctx, "paid")
				return err
			})
			require.NoError(t, err)
			if attempts == 1 {
				return http.StatusInternalServerError, nil
			}
			_, err = core.DeriveEvent(ctx, "paid")
			require.ErrorIs(t, err, core.ErrSameEvent)
			return http.StatusCreated, nil
		})
		a.post("k-1", `{}`)
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		require.Equal(t, 2, attempts)
	})
	// The list of steps is a memory; what decides is the row that the start of the step finds. So a payment that has its
	// result is not called again, whatever the list says.
	t.Run("a finished step is not called again though the list lacks it", func(t *testing.T) {
		var p charger
		var got []int
		a := newFlowApp(t, forgetful{newFaultStore(memstore.New())}, func(ctx context.Context) (int, error) {
			n, err := core.Call(ctx, "charge", p.charge)
			got = append(got, n)
			if err == nil && len(got) == 1 {
				err = errProvider
			}
			return http.StatusCreated, err
		})
		for range 2 {
			require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		}
		p.requireOneCharge(t, 1)
	})
}
