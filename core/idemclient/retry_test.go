package idemclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/intents"
)

// CONTRACT C-2
func TestWhatIsRetried(t *testing.T) {
	again := map[string]func(*http.Request) (*http.Response, error){
		"network error": breaks(errReset),
		"cut answer": func(r *http.Request) (*http.Response, error) {
			res, _ := says(201, created)(r)
			res.Body = io.NopCloser(failing{io.ErrUnexpectedEOF})
			return res, nil
		},
		"500":                         says(500),
		"500 created by a proxy":      says(500, "Idempotency-Result: something"),
		"in_flight":                   problem(core.CodeInFlight),
		"in_flight, as text":          says(409, "Idempotency-Problem: in_flight", "", "later"),
		"425":                         says(425),
		"429":                         says(429),
		"502":                         says(502),
		"503":                         says(503),
		"503 store_unavailable":       problem(core.CodeStoreUnavailable),
		"503 commit_unconfirmed":      problem(core.CodeCommitUnconfirmed, "Idempotency-Result: unknown"),
		"500 that a repeat continues": says(500, "Idempotency-Result: unknown", "Retry-After: 1"),
		"502 that a repeat continues": says(502, "Idempotency-Result: unknown", "Retry-After: 1"),
		"503 that continues at once":  says(503, "Idempotency-Result: unknown", "Retry-After: 0"),
		"503 rolled_back":             problem(core.CodeRolledBack),
		"400 body_unreadable":         problem(core.CodeBodyUnreadable),
		"429 too_many_open":           busy,
		"504":                         says(504),
		"503 with an answer of 9":     says(503, "", "123456789"),
		"marked as replayed only":     says(500, "Idempotent-Replayed: true"),
	}
	for _, status := range []int{501, 505, 506, 507, 508, 510, 511, 520, 521, 522, 523, 524, 525, 526, 527, 530, 598, 599} {
		again[fmt.Sprint(status)] = says(status)
	}
	for name, answer := range again {
		inBubble(t, name, func(t *testing.T) {
			w := on(answer, says(201, created))
			res := succeeded(t)(pay(t, newClient(t, idemclient.Config{Transport: w, MaxAnswer: 1 << 10}), "order-7"))
			require.Equal(t, 201, res.StatusCode)
			require.Len(t, w.sent, 2)
		})
	}
}

// CONTRACT C-2
func TestWhatIsAnAnswer(t *testing.T) {
	type answer struct {
		status int
		lines  []string
	}
	answers := []answer{
		// A recorded answer is the same for good, whatever it says.
		{409, []string{"Content-Type: application/json", "Idempotency-Result: created", "", `{"code":"in_flight"}`}},
		{409, []string{"Content-Type: application/json", "Idempotency-Result: reused", "", `{"code":"key_reused"}`}},
		{409, []string{"Content-Type: application/problem+json", "Idempotency-Result: created", "", `{"code":"out_of_stock"}`}},
		{500, []string{"Idempotency-Result: reused"}},
		// The guards have refused, and nothing was carried out.
		{409, []string{"Content-Type: application/json", "Idempotency-Problem: suspected_duplicate", "", `{"code":"suspected_duplicate"}`}},
		{400, []string{"Content-Type: text/plain", "Idempotency-Problem: key_missing", "", `no key`}},
		// The handler has, and nothing was carried out.
		{402, []string{"Idempotency-Result: not_applied", "", "declined"}},
		{409, []string{"Idempotency-Result: not_applied", "", "sold"}},
	}
	for _, status := range []int{200, 201, 204, 301, 303, 307, 308, 400, 401, 402, 403, 404, 408, 409, 410, 412, 413, 422} {
		answers = append(answers, answer{status, []string{created, "", "recorded"}})
	}
	for _, answer := range answers {
		w := on(says(answer.status, answer.lines...))
		res, err := pay(t, newClient(t, idemclient.Config{Transport: w}), "order-7")
		require.NoError(t, err, "%+v", answer)
		require.Equal(t, answer.status, res.StatusCode)
		if n := len(answer.lines); n > 0 && answer.status != 500 {
			require.Equal(t, answer.lines[n-1], text(t, res))
		}
		require.Len(t, w.sent, 1, "%+v", answer)
	}
}

// CONTRACT C-2
func TestWhatIsNeverRetried(t *testing.T) {
	for _, test := range []struct {
		answer    func(*http.Request) (*http.Response, error)
		want      error
		uncertain bool
	}{
		{problem(core.CodeKeyReused), idemclient.ErrKeyReused, false},
		{problem(core.CodeOutcomeUnknown, "Idempotency-Result: unknown"), idemclient.ErrOutcomeUnknown, true},
		{problem(core.CodeKeyExpired), idemclient.ErrKeyExpired, false},
		{problem(core.CodeResponseNotReplayable), idemclient.ErrNotReplayable, false},
		{says(409, "Content-Type: application/json", "Idempotency-Problem: key_too_old", "", `{"detail":"a detail","operation":"`+operation+`"}`),
			idemclient.ErrKeyTooOld, false},
		{says(200, "Content-Type: application/json", "Idempotency-Problem: key_reused", "", `{"detail":"a detail","operation":"`+operation+`"}`),
			idemclient.ErrKeyReused, false},
		{says(409, "Content-Type: text/plain", "Idempotency-Result: unknown", "", `"detail":"a detail"`), idemclient.ErrOutcomeUnknown, true},
		{says(500, "Idempotency-Result: unknown"), idemclient.ErrOutcomeUnknown, true},
		{says(502, "Idempotency-Result: unknown"), idemclient.ErrOutcomeUnknown, true},
		{says(402, "Idempotency-Result: unknown"), idemclient.ErrOutcomeUnknown, true},
		// The problem of another service, which a half-done handler has passed on.
		{relayed(core.CodeKeyExpired, "Idempotency-Result: unknown"), idemclient.ErrOutcomeUnknown, true},
		{relayed(core.CodeKeyReused, "Idempotency-Result: unknown"), idemclient.ErrOutcomeUnknown, true},
	} {
		w := on(test.answer)
		e := failed(t)(pay(t, newClient(t, idemclient.Config{Transport: w}), "order-7"))
		require.ErrorIs(t, e, test.want)
		require.NotErrorIs(t, e, idemclient.ErrGivenUp)
		require.Equal(t, 1, e.Attempts)
		require.Equal(t, test.uncertain, e.Uncertain, "%v", e)
		require.Equal(t, e.Status, e.Response.StatusCode)
		require.Len(t, w.sent, 1, "%v", e)
		require.NotContains(t, e.Error(), w.sent[0].key)
		if e.Status == 409 && e.Code != "" {
			require.Equal(t, operation, e.Operation)
			require.Contains(t, text(t, e.Response), `"detail":"a detail"`)
			require.ErrorContains(t, e, operation)
		}
	}
}

// An outcome that was uncertain stays so, until there is an answer.
//
// CONTRACT C-2
func TestUncertainty(t *testing.T) {
	for name, test := range map[string]struct {
		answers   []func(*http.Request) (*http.Response, error)
		uncertain bool
	}{
		"nothing was run":           {[]func(*http.Request) (*http.Response, error){problem(core.CodeStoreUnavailable), busy, says(429, "Idempotency-Result: not_applied"), problem(core.CodeRolledBack)}, false},
		"relayed, after it was run": {[]func(*http.Request) (*http.Response, error){relayed(core.CodeStoreUnavailable), busy}, true},
		"undone elsewhere":          {[]func(*http.Request) (*http.Response, error){relayed(core.CodeRolledBack), busy}, true},
		"too many elsewhere":        {[]func(*http.Request) (*http.Response, error){relayed(core.CodeTooManyOpen), busy}, true},
		"limited by somebody":       {[]func(*http.Request) (*http.Response, error){says(429), busy}, true},
		"too early for somebody":    {[]func(*http.Request) (*http.Response, error){says(425), busy}, true},
		"half-done, and too many":   {[]func(*http.Request) (*http.Response, error){says(429, "Idempotency-Result: unknown"), busy}, true},
		"it may be running":         {[]func(*http.Request) (*http.Response, error){problem(core.CodeInFlight)}, true},
		"no answer":                 {[]func(*http.Request) (*http.Response, error){breaks(errReset)}, true},
		"no answer, then not run":   {[]func(*http.Request) (*http.Response, error){breaks(errReset), busy}, true},
		"a gateway gave up":         {[]func(*http.Request) (*http.Response, error){says(504), busy}, true},
		"it said so":                {[]func(*http.Request) (*http.Response, error){problem(core.CodeCommitUnconfirmed), busy}, true},
		"the key is for another":    {[]func(*http.Request) (*http.Response, error){breaks(errReset), problem(core.CodeKeyReused)}, true},
		"it was carried out before": {[]func(*http.Request) (*http.Response, error){breaks(errReset), problem(core.CodeKeyExpired)}, false},
	} {
		inBubble(t, name, func(t *testing.T) {
			client := newClient(t, idemclient.Config{Transport: on(test.answers...), Direct: true, MaxAttempts: 4})
			e := failed(t)(pay(t, client, "order-7"))
			require.Equal(t, test.uncertain, e.Uncertain, "%v", e)
			if errors.Is(e, idemclient.ErrGivenUp) {
				require.Equal(t, test.uncertain, strings.Contains(e.Error(), "the money may have moved: repeat the same intent, never a new one"))
			}
		})
	}
	inBubble(t, "an earlier call", func(t *testing.T) {
		client := newClient(t, idemclient.Config{Transport: on(breaks(errReset), busy), MaxAttempts: 1})
		for range 2 {
			require.True(t, failed(t)(pay(t, client, "order-7")).Uncertain)
		}
	})
}

// CONTRACT C-4, C-2
func TestUncertainOutcomes(t *testing.T) {
	t.Run("once an attempt had no answer, the answer to a later one has to be the command's own", func(t *testing.T) {
		cut := breaks(errReset)
		for _, status := range []int{
			200, 201, 204, 301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 407, 408, 409, 410, 412, 413, 415, 422, 428, 431, 451,
		} {
			requireUncertain(t, idemclient.Standard(), idemclient.ErrStillUncertain, cut, says(status))
			requireUncertain(t, idemclient.Standard(), idemclient.ErrStillUncertain, says(520), says(status, "Idempotent-Replayed: true"))
			requireEnds(t, idemclient.Standard(), cut, says(status, "Idempotency-Result: reused"))
			requireEnds(t, idemclient.Standard(), cut, says(status, created))
			requireUncertain(t, idemclient.Standard(), idemclient.ErrStillUncertain, cut, says(status, "Idempotency-Result: not_applied"))
		}
		requireUncertain(t, idemclient.Standard(), idemclient.ErrKeyReused, cut, problem(core.CodeKeyReused))
		requireUncertain(t, idemclient.Standard(), idemclient.ErrOutcomeUnknown, cut, problem(core.CodeOutcomeUnknown))
		requireUncertain(t, idemclient.Standard(), idemclient.ErrKeyTooOld, cut,
			says(409, "Idempotency-Problem: key_too_old"))
		requireEnds(t, idemclient.Standard(), cut, problem(core.CodeKeyExpired))
		requireEnds(t, idemclient.Standard(), cut, problem(core.CodeResponseNotReplayable))
	})
	t.Run("providers without the header", func(t *testing.T) {
		cut := breaks(errReset)
		for _, p := range []idemclient.Provider{
			unguarded(), idemclient.Stripe(), idemclient.Adyen(), idemclient.PayPal(), idemclient.CheckoutCom(),
		} {
			requireEnds(t, p, cut, says(201))
			for _, status := range []int{302, 400, 401, 403, 404, 409, 422} {
				requireUncertain(t, p, idemclient.ErrStillUncertain, cut, says(status))
			}
		}
		requireEnds(t, idemclient.Stripe(), cut, says(402))
		requireEnds(t, idemclient.Stripe(), cut, says(400, "Idempotent-Replayed: true"))
		requireUncertain(t, idemclient.Adyen(), idemclient.ErrStillUncertain, cut, says(402))
	})
	t.Run("what others may have done under the key counts", func(t *testing.T) {
		client := newClient(t, idemclient.Config{Transport: on(says(201, created), busy), Direct: true, MaxAttempts: 1})
		succeeded(t)(pay(t, client, "order-7"))
		require.True(t, failed(t)(pay(t, client, "order-7")).Uncertain, "it has had an answer, and this caller does not know which")

		r := payment(t, address)
		r.Header.Set("Idempotency-Key", "of-somebody-else")
		require.True(t, failed(t)(client.Do(t.Context(), "order-8", r)).Uncertain)
		require.False(t, failed(t)(pay(t, client, "order-9")).Uncertain)
	})
}

// requireUncertain sends an intent that gets the answers, and requires that it goes on.
func requireUncertain(t *testing.T, p idemclient.Provider, want error, answers ...func(*http.Request) (*http.Response, error)) {
	t.Helper()
	ended, res, err := answered(t, p, answers)
	e := failed(t)(res, err)
	require.ErrorIs(t, e, want)
	require.True(t, e.Uncertain, "%v", e)
	require.Equal(t, len(answers), e.Attempts, "%v", e)
	require.False(t, ended, "%v", e)
}

// requireEnds sends an intent that gets the answers, and requires that it ends.
func requireEnds(t *testing.T, p idemclient.Provider, answers ...func(*http.Request) (*http.Response, error)) {
	t.Helper()
	ended, _, err := answered(t, p, answers)
	if e, failed := errors.AsType[*idemclient.Error](err); failed {
		require.False(t, e.Uncertain, "%v", e)
		require.True(t, errors.Is(e, idemclient.ErrKeyExpired) || errors.Is(e, idemclient.ErrNotReplayable), "%v", e)
	}
	require.True(t, ended, "%v", err)
}

func answered(t *testing.T, p idemclient.Provider, answers []func(*http.Request) (*http.Response, error)) (
	ended bool, res *http.Response, err error,
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		journal := intents.NewMemoryJournal()
		res, err = pay(t, newClient(t, idemclient.Config{Transport: on(answers...), Journal: journal, Provider: p}), "order-7")
		ended = hasEnded(t, journal)
	})
	return ended, res, err
}

// CONTRACT C-2
func TestBackoffGrowsWithJitterAndEnds(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			w := on(breaks(errReset))
			client := newClient(t, idemclient.Config{Transport: w, MaxAttempts: 6, FirstPause: time.Second, MaxPause: 5 * time.Second})
			e := failed(t)(pay(t, client, "order-7"))
			require.ErrorIs(t, e, idemclient.ErrGivenUp)
			require.ErrorIs(t, e, errReset)
			require.Equal(t, 6, e.Attempts)
			pauses := w.pauses()
			require.Len(t, pauses, 5)
			for i, interval := range []time.Duration{1, 2, 4, 5, 5} {
				require.GreaterOrEqual(t, pauses[i], interval*time.Second/2)
				require.LessOrEqual(t, pauses[i], interval*time.Second*3/2+1)
				seen[pauses[i]] = true
			}
		})
	}
	require.Greater(t, len(seen), 90, "no two callers pause alike")
}

// CONTRACT C-2
func TestRetryAfterIsHonoured(t *testing.T) {
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for name, test := range map[string]struct {
		lines func() []string
		want  time.Duration
	}{
		"seconds":      {func() []string { return []string{"Retry-After: 7"} }, 7 * time.Second},
		"with a blank": {func() []string { return []string{"Retry-After:  7 "} }, 7 * time.Second},
		"a date":       {func() []string { return []string{"Retry-After: " + at(30*time.Second)} }, 30 * time.Second},
		"a date, skew": {func() []string {
			return []string{"Date: " + at(-time.Hour), "Retry-After: " + at(30*time.Second-time.Hour)}
		}, 30 * time.Second},
		"ahead of us": {func() []string {
			return []string{"Date: " + at(5*time.Hour), "Retry-After: " + at(5*time.Hour+20*time.Second)}
		}, 20 * time.Second},
		"the past":      {func() []string { return []string{"Retry-After: " + at(-time.Minute)} }, 0},
		"nonsense":      {func() []string { return []string{"Retry-After: soon"} }, 0},
		"negative":      {func() []string { return []string{"Retry-After: -5"} }, 0},
		"zero":          {func() []string { return []string{"Retry-After: 0"} }, 0},
		"as long as it": {func() []string { return []string{"Retry-After: 60"} }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			for _, status := range []int{429, 503} {
				synctest.Test(t, func(t *testing.T) {
					w := on(says(status, test.lines()...), says(201, created))
					succeeded(t)(pay(t, newClient(t, idemclient.Config{Transport: w}), "order-7"))
					require.GreaterOrEqual(t, w.pauses()[0], test.want)
					require.LessOrEqual(t, w.pauses()[0], test.want+300*time.Millisecond)
				})
			}
		})
	}
}

// CONTRACT C-2
func TestRetryAfterThatIsTooLong(t *testing.T) {
	for after, want := range map[string]time.Duration{
		"100000": 100000 * time.Second, "61": 61 * time.Second, "99999999999999999999": 1<<63 - 1,
		"9999999999999": 1<<63 - 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := on(problem(core.CodeStoreUnavailable, "Retry-After: "+after), says(201, created))
			begun := time.Now()
			e := failed(t)(pay(t, newClient(t, idemclient.Config{Transport: w}), "order-7"))
			require.ErrorIs(t, e, idemclient.ErrGivenUp)
			require.Equal(t, want, e.RetryAfter)
			require.Equal(t, 503, e.Status)
			require.Zero(t, time.Since(begun), "at once")
			require.Len(t, w.sent, 1)
		})
	}
}

// CONTRACT C-2
func TestRetryAfterOfTheLastAnswer(t *testing.T) {
	for after, want := range map[string]time.Duration{"5": 5 * time.Second, "Sat, 01 Jan 2000 00:00:00 GMT": 0} {
		client := newClient(t, idemclient.Config{Transport: on(says(503, "Retry-After: "+after)), MaxAttempts: 1})
		res, err := pay(t, client, "order-7")
		require.Equal(t, want, failed(t)(res, err).RetryAfter)
	}
}

// CONTRACT C-2
func TestTheCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := onWire(t, problem(core.CodeInFlight, "Retry-After: 2"))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begun := time.Now()
		e := failed(t)(client.Do(ctx, "order-7", payment(t, address)))
		require.ErrorIs(t, e, idemclient.ErrGivenUp)
		require.ErrorIs(t, e, idemclient.ErrInFlight, "what is known")
		require.Equal(t, operation, e.Operation)
		require.Less(t, time.Since(begun), 5*time.Second, "no sleep past the deadline, nor up to it")
		require.Equal(t, 3, e.Attempts)
	})
	synctest.Test(t, func(t *testing.T) { // an attempt is under way
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begun := time.Now()
		e := failed(t)(newClient(t, idemclient.Config{Transport: on(says(503), hangs)}).Do(ctx, "order-7", payment(t, address)))
		require.ErrorIs(t, e, idemclient.ErrGivenUp)
		require.ErrorIs(t, e, context.DeadlineExceeded)
		require.True(t, e.Uncertain)
		require.Equal(t, 2, e.Attempts)
		require.Equal(t, 5*time.Second, time.Since(begun))
	})
	synctest.Test(t, func(t *testing.T) { // it has passed before the call
		ctx, cancel := context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		w := on(says(201, created))
		e := failed(t)(newClient(t, idemclient.Config{Transport: w}).Do(ctx, "order-7", payment(t, address)))
		require.ErrorIs(t, e, idemclient.ErrGivenUp)
		require.ErrorIs(t, e, context.DeadlineExceeded)
		require.True(t, e.Uncertain, "the journal was not asked")
		require.Zero(t, e.Attempts)
		require.Empty(t, w.sent)
	})
	synctest.Test(t, func(t *testing.T) { // the caller goes, in a pause
		stopped := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Second, func() { cancel(stopped) })
		w := on(says(503, "Retry-After: 30"))
		e := failed(t)(newClient(t, idemclient.Config{Transport: w}).Do(ctx, "order-7", payment(t, address)))
		require.ErrorIs(t, e, idemclient.ErrGivenUp)
		require.ErrorIs(t, e, stopped)
		require.Equal(t, 503, e.Status)
		require.Len(t, w.sent, 1)
	})
}

// CONTRACT C-2
func TestACallIsBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := on(hangs)
		client := newClient(t, idemclient.Config{
			Transport: w, AttemptTimeout: 10 * time.Second, MaxElapsed: 25 * time.Second, MaxAttempts: 100,
		})
		begun := time.Now()
		e := failed(t)(pay(t, client, "order-7"))
		require.ErrorIs(t, e, context.DeadlineExceeded)
		require.ErrorContains(t, e, "Config.MaxElapsed")
		require.True(t, e.Uncertain)
		require.Equal(t, 3, e.Attempts)
		require.Equal(t, 25*time.Second, time.Since(begun))
	})
	synctest.Test(t, func(t *testing.T) { // one attempt that hangs is not the last
		res := succeeded(t)(pay(t, newClient(t, idemclient.Config{Transport: on(hangs, says(201, created))}), "order-7"))
		require.Equal(t, 2, idemclient.ResultOf(res).Attempts)
	})
}

// CONTRACT C-1
func TestWhatEndsAnIntent(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		ends   bool
	}{
		"recorded 201": {says(201, created), true}, "recorded 303": {says(303, created), true},
		"402 not applied": {says(402, "Idempotency-Result: not_applied"), true}, "403 not applied": {says(403, "Idempotency-Result: not_applied"), false},
		"400 of the guards": {problem(core.CodeKeyInvalid), true}, "401 of the guards": {problem(core.CodeUnauthenticated), false},
		"suspected duplicate": {problem(core.CodeSuspectedDuplicate), false},
		"too large":           {says(201, created, "", strings.Repeat("x", 2000)), true},
		"expired":             {problem(core.CodeKeyExpired), true}, "not replayable": {problem(core.CodeResponseNotReplayable), true},
		"recorded 403": {says(403, "Idempotency-Result: created"), true},
		"503":          {says(503), false}, "no answer": {breaks(errReset), false}, "in flight": {problem(core.CodeInFlight), false},
		"unknown": {problem(core.CodeOutcomeUnknown), false}, "500 unknown": {says(500, "Idempotency-Result: unknown"), false},
		"reused": {problem(core.CodeKeyReused), false},
	} {
		journal := intents.NewMemoryJournal()
		client := newClient(t, idemclient.Config{Transport: on(test.answer), Journal: journal, MaxAttempts: 1, MaxAnswer: 1000})
		res, err := pay(t, client, "order-7")
		if failed, ok := errors.AsType[*idemclient.Error](err); ok {
			res = failed.Response
		}
		require.Equal(t, test.ends, idemclient.ResultOf(res).Ends, name)
		e, err := journal.Begin(t.Context(), intents.Entry{Intent: "order-7"})
		require.NoError(t, err)
		require.NotEmpty(t, e.Key)
		require.Equal(t, test.ends, e.Ended, name)
	}
	// The caller's context has ended when the answer is there: it is noted all the same.
	journal := &endedWith{MemoryJournal: intents.NewMemoryJournal()}
	ctx, cancel := context.WithCancel(t.Context())
	client := newClient(t, idemclient.Config{Journal: journal, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		cancel()
		return says(201, created)(r)
	})})
	succeeded(t)(client.Do(ctx, "order-7", payment(t, address)))
	require.NoError(t, journal.err)
}

// endedWith is a journal that tells whether the context of End was still of use.
type endedWith struct {
	*intents.MemoryJournal
	err error
}

func (j *endedWith) End(ctx context.Context, intent string) error {
	j.err = ctx.Err()
	return j.MemoryJournal.End(ctx, intent)
}

func TestAnAnswerThatIsTooLarge(t *testing.T) {
	client := newClient(t, idemclient.Config{Transport: on(says(201, created, "", "123456789")), MaxAnswer: 8})
	e := failed(t)(pay(t, client, "order-7"))
	require.ErrorIs(t, e, idemclient.ErrAnswerTooLarge)
	require.Equal(t, 201, e.Status)
	require.Equal(t, "12345678", text(t, e.Response))
	require.False(t, e.Uncertain)

	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, idemclient.Config{Transport: on(breaks(errReset), says(201, created, "", "123456789")), MaxAnswer: 8})
		require.False(t, failed(t)(pay(t, client, "order-7")).Uncertain, "there is an answer")
	})

	client = newClient(t, idemclient.Config{Transport: on(says(201, created, "", "123456789")), MaxAnswer: 9})
	res := succeeded(t)(pay(t, client, "order-7"))
	require.Equal(t, "123456789", text(t, res))
}

// CONTRACT C-1, T-5
func TestAnIntentThatIsTooOldIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := on(breaks(errReset), says(201, created))
		client := newClient(t, idemclient.Config{Transport: w, Provider: idemclient.PayPal(), MaxAttempts: 1})
		require.ErrorIs(t, failed(t)(pay(t, client, "order-7")), idemclient.ErrGivenUp)
		time.Sleep(6*time.Hour - idemclient.DefaultAttemptTimeout + time.Second)
		e := failed(t)(pay(t, client, "order-7"))
		require.ErrorIs(t, e, idemclient.ErrTooOld)
		require.True(t, e.Uncertain)
		require.Zero(t, e.Attempts)
		require.Len(t, w.sent, 1)
	})
	synctest.Test(t, func(t *testing.T) { // it grows too old while it is repeated
		provider := idemclient.Standard()
		provider.Lifetime = 3 * time.Minute
		w := on(says(503, "Retry-After: 60"))
		client := newClient(t, idemclient.Config{Transport: w, Provider: provider})
		e := failed(t)(pay(t, client, "order-7"))
		require.ErrorIs(t, e, idemclient.ErrTooOld)
		require.Equal(t, 2, e.Attempts)
		require.Len(t, w.sent, 2)
	})
	synctest.Test(t, func(t *testing.T) { // planned long ago, never sent
		w, client := onWire(t, says(201, created))
		key := planned(t)(client.Key(t.Context(), "order-7"))
		time.Sleep(48 * time.Hour)
		succeeded(t)(pay(t, client, "order-7"))
		require.Equal(t, key, w.sent[0].key)
	})
	w := on(says(201, created)) // its journal does not know how old it is
	client := newClient(t, idemclient.Config{Journal: ageless{intents.NewMemoryJournal()}, Transport: w})
	require.ErrorIs(t, failed(t)(pay(t, client, "order-7")), idemclient.ErrTooOld)
	require.Empty(t, w.sent)
}

// ageless is a journal whose clock has gone back.
type ageless struct{ *intents.MemoryJournal }

func (j ageless) Begin(ctx context.Context, e intents.Entry) (intents.Entry, error) {
	e, err := j.MemoryJournal.Begin(ctx, e)
	e.Age = intents.UnknownAge
	return e, err
}
