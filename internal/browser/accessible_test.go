package browser

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// axe is axe-core 4.14.1 of npm, unchanged: a checker of accessibility. Its licence is beside it.
//
//go:embed testdata/axe/axe.min.js
var axe string

// faults are what axe finds in the page, of whatever weight, but for its weakest class: "minor".
const faults = `axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations
	.filter((v) => v.impact != 'minor')
	.map((v) => v.impact + ' ' + v.id + ': ' + v.help + '\n' + v.nodes.slice(0, 5).map((n) => '  ' + n.html.slice(0, 160)).join('\n')))`

// small are the targets of the page that are less than 24 pixels high or wide, but for links in a sentence.
const small = `[...document.querySelectorAll('a, button, input:not([type=hidden]), select, textarea, summary')]
	.filter((e) => e.checkVisibility() && !e.matches('.skip') && !e.closest('p.note, p.hint, p.crumbs, dd, .choice'))
	.map((e) => [e, e.getBoundingClientRect()]).filter(([e, box]) => box.width < 24 || box.height < 24)
	.map(([e, box]) => Math.round(box.width) + 'x' + Math.round(box.height) + ' ' + e.outerHTML.slice(0, 120))`

// cutOff are the lists whose chosen text has no room, or on which another field lies.
const cutOff = `(() => {
	const measure = document.createElement('canvas').getContext('2d');
	const boxes = [...document.querySelectorAll('input:not([type=hidden], [type=radio]), select, textarea, button')]
		.filter((e) => e.checkVisibility()).map((e) => [e, e.getBoundingClientRect()]);
	return [...document.querySelectorAll('select')].filter((e) => {
		const css = getComputedStyle(e), box = e.getBoundingClientRect();
		measure.font = css.font;
		const arrow = 16, room = box.width - parseFloat(css.paddingLeft) - parseFloat(css.paddingRight) - arrow;
		return measure.measureText(e.selectedOptions[0].text).width > room || boxes.some(([other, o]) => other !== e &&
			o.left < box.right - 1 && box.left < o.right - 1 && o.top < box.bottom - 1 && box.top < o.bottom - 1);
	}).map((e) => e.outerHTML.slice(0, 80));
})()`

// accessible fails the test if a checker finds fault with the page, in light or dark colours, or if a target is too small.
func (b *tab) accessible() {
	b.t.Helper()
	b.until("true")
	for _, scheme := range []string{"dark", "light"} {
		b.prefer(scheme)
		if !eval[bool](b, "Boolean(window.axe)") {
			eval[any](b, axe+"; null")
		}
		require.Empty(b.t, eval[[]string](b, faults), "%s: %s", scheme, eval[string](b, "location.pathname"))
	}
	require.Empty(b.t, eval[[]string](b, small), eval[string](b, "location.pathname"))
	require.Empty(b.t, eval[[]string](b, cutOff), "a choice is cut off, or lies under another")
}

// Every page, in each of its states, passes the checker.
func TestInspectorIsAccessible(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		p := inspected(t, framework)
		b := newTab(t)
		b.open(p.URL + "/idem/operations")
		b.accessible() // 401
		b.open(p.URL + "/idem-sign-in")
		b.accessible()
		payout(t, p, "paid-1", "pm_ok")
		operation := unknownPayout(t, p, "payout-7")
		signIn(b, p, "customer-1")
		b.accessible() // 403
		b.open(p.URL + "/idem-sign-in")
		signIn(b, p, "operator-1")
		open := func(path string) {
			b.open(p.URL + "/idem/" + path)
			b.accessible()
		}
		for _, path := range []string{"", "operations", "operations?state=half_done", "operations?from=never", "find",
			"history", "operations/" + operation, "operations/" + operation + "?call=payout", "operations/" + operation + "/settle",
			"operations/" + strings.Repeat("0", 64), "nothing"} {
			open(path)
		}
		open("restore")
		b.click("input[name=confirm]")
		b.press("refuse")
		eval[any](b, "document.querySelector('[name=why]').value = 'restore, ticket 7'")
		b.click("form[action$='/keys'] button")
		b.until("document.querySelector('.done')")
		b.accessible()
		b.looks()
		b.open(p.URL + "/idem/find")
		eval[any](b, "document.querySelector('[name=id]').value = 'nothing of ours'")
		b.click("#by-id ~ form button")
		b.until("document.querySelector('.problem')")
		b.accessible()
		require.Contains(t, eval[string](b, "document.title"), "Not found")

		b.open(p.URL + "/idem/operations/" + operation + "/settle")
		b.click("input[value=applied]")
		eval[any](b, "document.querySelector('[name=why]').value = 'seen'")
		eval[any](b, "document.querySelector('[name=confirm]').value = 'no'")
		b.click("form.settle button")
		b.until("document.querySelector('.problem')")
		b.accessible()
		require.Equal(t, "confirm", eval[string](b, "document.querySelector('[aria-invalid=true]').name"))
		eval[any](b, "document.querySelector('[name=confirm]').value = 'applied "+operation[56:]+"'")
		b.click("form.settle button")
		b.until("document.querySelector('.timeline')")
		b.accessible()
		b.click("form[action$='/answer'] button")
		b.until("document.querySelector('main pre')")
		b.accessible()
		open("history")
		open("operations/" + operation + "/settle") // 409
	})
}
