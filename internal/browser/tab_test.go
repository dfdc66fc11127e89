package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// patience bounds every wait for the browser.
const patience = time.Minute

// tab is a tab in a browser context of its own: no other test shares its cookies and its storage. Its methods fail the
// test, and so belong to the test's goroutine.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string // of the page's scripts and of the browser: exceptions, refused by CORS or CSP
	hosts      []string // that the page has asked
}

// newTab opens an empty tab of 1280 x 800 pixels. It is closed when the test ends.
func newTab(t *testing.T) *tab {
	t.Helper()
	shared, err := browser()
	if errors.Is(err, errNotInstalled) {
		t.Skipf("%v\n%s", err, hint)
	}
	require.NoErrorf(t, err, "%s", hint)
	b := &tab{t: t}
	ctx, closeTab := chromedp.NewContext(shared, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.listen))
	b.ctx = ctx
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the page complains: %q", b.complained())
		}
		closeTab()
	})
	// The first call binds the tab to its context, so it has no time-out.
	require.NoError(t, chromedp.Do(ctx))
	b.call(func(ctx context.Context, s *chromedp.Target) error {
		_, logs := cdp.Call(ctx, s, log.Enable, cdp.Empty{})
		_, requests := cdp.Call(ctx, s, network.Enable, network.EnableParams{})
		return errors.Join(logs, requests)
	})
	b.size(1280, 800)
	return b
}

// listen runs in chromedp's goroutine.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		b.complaints = append(b.complaints, e.Entry.Text)
	case *network.EventRequestWillBeSent:
		b.hosts = append(b.hosts, e.Request.URL)
	}
}

// complained returns what the page's scripts and the browser have complained about.
func (b *tab) complained() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.complaints)
}

// asked returns the addresses that the page has asked for.
func (b *tab) asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.hosts)
}

// call runs an action, which must not take longer than patience.
func (b *tab) call(action func(ctx context.Context, s *chromedp.Target) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, chromedp.Func(action)))
}

// do runs actions of chromedp, each within patience.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for _, action := range actions {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		err := chromedp.Do(ctx, action)
		cancel()
		require.NoError(b.t, err)
	}
}

// open goes to an address, and waits until the page has loaded.
func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// eval returns the value of a JavaScript expression in the page of b. It waits for a promise.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := tryEval[T](b, expression)
	require.NoErrorf(b.t, err, "%s", expression)
	return value
}

func tryEval[T any](b *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// loaded is true once a page has its styles: before, what is clicked may still move.
const loaded = "document.readyState == 'complete'"

// until waits until a page has loaded of which a JavaScript expression is true. It asks from here, because a page with a strict Content-Security-Policy
// cannot run the scripts by which chromedp would wait.
func (b *tab) until(condition string) {
	b.t.Helper()
	var err error
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var met bool
		if met, err = tryEval[bool](b, loaded+" && Boolean("+condition+")"); met {
			return
		}
		if time.Now().After(deadline) {
			break
		}
	}
	text, _ := tryEval[string](b, "document.body.innerText")
	b.t.Fatalf("this does not become true: %s (%v)\n%s", condition, err, text)
}

// click clicks the first element that a CSS selector finds, as a user does: it must be visible.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.until(loaded)
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// press presses keys on the element that has the focus.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// reach presses Tab until the element that a CSS selector finds has the focus, and shows it.
func (b *tab) reach(selector string) {
	b.t.Helper()
	for range 60 {
		b.press(kb.Tab)
		if eval[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			require.NotEqual(b.t, "none", eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"), selector)
			return
		}
	}
	b.t.Fatalf("Tab does not reach %s", selector)
}

// choose presses the arrow keys on the list that has the focus, until the option of the given value is chosen.
func (b *tab) choose(value string) {
	b.t.Helper()
	b.press(kb.Home)
	for range 60 {
		if eval[string](b, "document.activeElement.value") == value {
			return
		}
		b.press(kb.ArrowDown)
	}
	b.t.Fatalf("no option has the value %q", value)
}

// typeTime types a time into the field that has the focus: month, day, year, hour, minute, half of the day. A busy browser
// can take two digits for two values, so that it looks, and types anew.
func (b *tab) typeTime(at time.Time) {
	b.t.Helper()
	want := at.Format("2006-01-02T15:04")
	for range 10 {
		b.press(strings.Repeat(kb.ArrowLeft, 6) + at.Format("0102") + at.Format("2006") + kb.ArrowRight + at.Format("0304PM"))
		if eval[string](b, "document.activeElement.value") == want {
			return
		}
	}
	b.t.Fatalf("the field has %q, want %q", eval[string](b, "document.activeElement.value"), want)
}

// text returns the visible text of the first element that a CSS selector finds.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}

// size sets the size of the page in CSS pixels.
func (b *tab) size(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// prefer sets the colours that the user prefers: "dark" or "light".
func (b *tab) prefer(scheme string) {
	b.t.Helper()
	b.call(func(ctx context.Context, s *chromedp.Target) error {
		_, err := cdp.Call(ctx, s, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

// fits fails the test if something of the page is wider than the page.
func (b *tab) fits() {
	b.t.Helper()
	wide := eval[[]string](b, `[...document.querySelectorAll('*')]
		.filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
		.filter((e) => !e.closest('[data-scrolls]'))
		.map((e) => e.outerHTML.slice(0, 120))`)
	require.Empty(b.t, wide, "these are wider than the page")
}

// contrasts are the texts of the page that are hard to read: less than 4.5 to 1 against what is behind them (WCAG AA).
const contrasts = `(() => {
	const rgb = (css) => css.match(/[\d.]+/g).map(Number);
	const light = (css) => rgb(css).slice(0, 3).map((c) => c / 255)
		.map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = (e) => { for (; e; e = e.parentElement) {
		const css = getComputedStyle(e).backgroundColor;
		if (rgb(css)[3] !== 0) return css;
	} return 'rgb(255, 255, 255)'; };
	const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
	return [...document.querySelectorAll('body *')]
		.filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) && e.checkVisibility())
		.filter((e) => ratio(light(getComputedStyle(e).color), light(behind(e))) < 4.5)
		.map((e) => e.outerHTML.slice(0, 100));
})()`

// looks fails the test if, in light or dark colours, a text of the page is hard to read, or if the page is too wide for a small
// telephone, a tablet or a wide screen. It leaves the page light, and 1280 pixels wide.
func (b *tab) looks() {
	b.t.Helper()
	brightness := map[string]int{}
	for _, scheme := range []string{"dark", "light"} {
		b.prefer(scheme)
		for _, width := range []int64{320, 768, 1920, 1280} {
			b.size(width, 900)
			b.fits()
			require.Empty(b.t, eval[[]string](b, contrasts), "%s, %d", scheme, width)
		}
		brightness[scheme] = eval[int](b, "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
	}
	require.Less(b.t, brightness["dark"], 64)
	require.Greater(b.t, brightness["light"], 192)
}

// notFound is what the browser complains of where a page answers 404.
const notFound = "Failed to load resource: the server responded with a status of 404 (Not Found)"

// quiet fails the test if a script of the page threw, the browser refused something that was not expected, or another host
// was asked.
func (b *tab) quiet(home string, expected ...string) {
	b.t.Helper()
	require.ElementsMatch(b.t, expected, b.complained())
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.hosts {
		require.True(b.t, strings.HasPrefix(url, home+"/") || strings.HasPrefix(url, "data:"), url)
	}
}

// picture writes a screenshot of what is visible into docs/images, if the flag -images is set.
func (b *tab) picture(name string) {
	b.t.Helper()
	if !*images {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.NoError(b.t, os.MkdirAll("../../docs/images", 0o755))
	require.NoError(b.t, os.WriteFile("../../docs/images/"+name+".png", png, 0o644))
}
