package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/inspect"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/wire"
)

// What names and texts must not do: run, load, close an element, or turn the text around them. The second one has no place to
// break a line.
const (
	evil    = "<script>document.title='x'</script><img src=x onerror=\"document.title='x'\"></textarea>'\"&amp;\u202eabc\u202d "
	endless = "ThisWordHasNoPlaceToBreak"
)

// longOf is a text of a length in bytes, evil and endless.
func longOf(size int) string {
	return evil + strings.Repeat(endless, size/len(endless))[:size-len(evil)]
}

// A route of 2 KB, 200 steps with names of 255 bytes, a reason of 4 KB and an answer that is longer than a page shows: the pages
// show all of it as text, on a small telephone too, and say where they cut.
func TestInspectorLongTexts(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	operator := core.Principal{Issuer: "https://issuer.example", Subject: longOf(200), Roles: []string{"operator"}}
	route := "/v1/" + longOf(2<<10)
	const settle = "/v1/operations/:id/settle"
	var passed atomic.Int64
	clock := func() time.Time { return time.Date(2026, time.November, 22, 12, 0, 0, int(passed.Load()), time.UTC) }
	module, err := core.New(core.Config{Store: memstore.New(memstore.WithClock(clock)), Now: clock,
		OperatorRoles: []core.IssuerRole{{Issuer: operator.Issuer, Role: operator.Roles[0]}},
		Policy:        core.Policy{Recovery: core.Resume, MaxAttempts: 1}, Observer: core.LogObserver(slog.New(slog.DiscardHandler)),
		ClaimTimeout: time.Minute}) // the machine may be busy
	require.NoError(t, err)
	// commandOf runs a command with 200 steps.
	commandOf := func(key string, answer http.HandlerFunc) core.ID {
		r := httptest.NewRequest(http.MethodPost, "/v1/long", strings.NewReader(`{}`))
		r.Header.Set(wire.HeaderKey, key)
		r, reply := module.Admit(r, route, operator)
		require.Nil(t, reply)
		attempt, reply := module.Begin(r, route, operator)
		require.Nil(t, reply)
		w := attempt.Capture(httptest.NewRecorder())
		for i := range 200 {
			name := fmt.Sprint(i, longOf(252))
			require.NoError(t, core.CallDo(attempt.Request().Context(), name,
				func(context.Context, core.DerivedKey) error { return nil }, core.Dedup(time.Hour)))
		}
		answer(w, attempt.Request())
		attempt.Finish()
		return core.Scoping{}.RecordID(operator, key)
	}
	done := commandOf("done", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset="+endless)
		w.Header().Set("Location", "/"+longOf(2<<10))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(strings.Repeat(longOf(1<<10), 64) + "behind the cut"))
	})
	lost := commandOf("lost", func(w http.ResponseWriter, r *http.Request) {
		require.Error(t, core.CallDo(r.Context(), "lost", func(context.Context, core.DerivedKey) error {
			return errors.New("the connection broke off")
		}, core.Dedup(time.Hour)))
		w.WriteHeader(http.StatusInternalServerError)
	})
	passed.Add(int64(time.Hour))
	pages, err := inspect.New(inspect.Config{Module: module, Settle: "POST " + settle,
		Caller: func(*http.Request) (core.Principal, error) { return operator, nil }})
	require.NoError(t, err)
	server := httptest.NewServer(pages)
	t.Cleanup(server.Close)

	// harmless fails the test if a text became more than a text.
	harmless := func() {
		t.Helper()
		require.Zero(t, eval[int](b, "document.querySelectorAll('script, img, iframe').length"))
		require.NotEqual(t, "x", eval[string](b, "document.title"))
		require.Contains(t, b.text("main"), "<script>document.title='x'</script>")
		require.Equal(t, []string{"isolate"}, eval[[]string](b,
			"[...new Set([...document.querySelectorAll('.route')].map((e) => getComputedStyle(e).unicodeBidi))]"))
		b.looks()
	}
	b.open(server.URL + "/idem/")
	harmless()
	b.open(server.URL + "/idem/operations")
	harmless()

	b.open(server.URL + "/idem/operations/" + done.String())
	harmless()
	require.Equal(t, 200, eval[int](b, "document.querySelectorAll('.timeline pre, .timeline dl').length"), "every step")
	require.NotContains(t, b.text("main"), "There is more of it")
	b.click("form[action$='/answer'] button")
	b.until("document.querySelector('[aria-label=\"The body of the answer\"]')")
	shown := eval[string](b, "document.querySelector('[aria-label=\"The body of the answer\"]').textContent")
	require.Equal(t, strings.Repeat(longOf(1<<10), 64), shown)
	require.Contains(t, b.text("main"), "There is more of it. The API has all of it.")
	harmless()

	b.open(server.URL + "/idem/operations/" + lost.String() + "/settle")
	harmless()
	require.Equal(t, 200, eval[int](b, "document.querySelectorAll('form.settle li').length"))
	reason, err := json.Marshal(longOf(4000))
	require.NoError(t, err)
	b.click("[value=not_applied]")
	eval[any](b, fmt.Sprintf("for (const name of ['why', 'undone']) document.getElementsByName(name)[0].value = %s", reason))
	b.quiet(server.URL)
	b.click("[name=confirm]")
	b.press("not applied 0")
	b.click("form.settle button")
	b.until("document.querySelector('.problem')")
	require.Equal(t, strings.TrimSpace(longOf(4000)), eval[string](b, "document.getElementsByName('why')[0].value"))
	harmless()
	b.click("[name=confirm]")
	b.press("not applied " + lost.String()[56:])
	b.click("form.settle button")
	b.until("document.querySelector('.timeline')")
	require.Equal(t, []string{longOf(4000), longOf(4000)}, eval[[]string](b,
		"[...[...document.querySelectorAll('.timeline .quotes')].at(-1).querySelectorAll('dd')].slice(1).map((e) => e.textContent)"),
		"why, and what was undone")
	harmless()
}
