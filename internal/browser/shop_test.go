package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
)

// openShop starts an app, and opens its page.
func openShop(t *testing.T, framework string) (*tab, *apptest.Process) {
	t.Helper()
	b := newTab(t)
	p := startApp(t, framework)
	b.open(p.URL + "/")
	b.until("document.querySelector('#with .verdict').textContent.includes('Nothing is paid')")
	return b, p
}

// faultsOn switches on these faults, and no others.
func (b *tab) faultsOn(names ...string) {
	b.t.Helper()
	for _, name := range []string{"lost", "slow", "dies", "double", "devices"} {
		box := fmt.Sprintf("#switches input[value=%s]", name)
		want := strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ")
		if eval[bool](b, fmt.Sprintf("document.querySelector(%q).checked", box)) != want {
			b.click(box)
		}
	}
}

const settled = "!document.querySelector('#reset').disabled"

// pays presses Pay, and waits until the page has its answer. Where the page gives up, because the server starts slowly, it
// presses again: that is the same order.
func (b *tab) pays() {
	b.t.Helper()
	for range 5 {
		b.click("#pay")
		b.until(settled)
		if !strings.Contains(b.text("#now"), "press Pay again") {
			return
		}
	}
	b.t.Fatal("the order is not paid")
}

// booked asks the server how often each order of the page's visitor is in a ledger: "with" or "without" a key.
func booked(b *tab, ledger string) map[string]int {
	b.t.Helper()
	path := map[string]string{"with": "/v1/payments", "without": "/demo/payments"}[ledger]
	return eval[map[string]int](b, fmt.Sprintf(`fetch(%q, {
		headers: {Authorization: 'Bearer ' + JSON.parse(localStorage.getItem('visitor')).token},
	}).then((res) => res.json()).then((payments) => payments.reduce(
		(all, {order_id}) => ({...all, [order_id]: (all[order_id] ?? 0) + 1}), {}))`, path))
}

// keysOfOrders are the keys that the page has sent, as its lines show them, by order.
const keysOfOrders = `[...document.querySelectorAll('#with .requests li')].reduce((all, line) => {
	const order = line.querySelector('.about').textContent.split(' · ')[0];
	const key = line.querySelector('.headers').textContent.match(/^Idempotency-Key: (\S+)/)[1];
	return {...all, [order]: [...new Set([...(all[order] ?? []), key])]};
}, {})`

// After twenty presses under faults, one ledger has each order once. The other one has doubles.
//
// CONTRACT C-1
func TestShop(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		b, p := openShop(t, framework)
		for _, faults := range [][]string{{"lost"}, {"slow"}, {"dies"}, {"double"}, {"devices", "lost"}} {
			before := booked(b, "without")
			b.faultsOn(faults...)
			for range 4 {
				b.pays()
			}
			for order, times := range booked(b, "without") {
				if before[order] == 0 {
					require.Greater(t, times, 1, "%s without a key, with %q", order, faults)
				}
			}
		}
		with := booked(b, "with")
		require.Len(t, with, 20)
		for order, times := range with {
			require.Equal(t, 1, times, order)
		}
		require.Contains(t, b.text("#without .verdict"), "too much")
		require.Contains(t, b.text("#with .requests"), "The same answer again")
		// One key for each intent: for every click, device and attempt of an order. The other counter sends none.
		keys := eval[map[string][]string](b, keysOfOrders)
		require.Len(t, keys, 20)
		used := map[string]string{}
		for order, own := range keys {
			require.Len(t, own, 1, order)
			require.Empty(t, used[own[0]], "%s has the key of another order", order)
			used[own[0]] = order
		}
		require.NotContains(t, b.text("#without .requests"), "Idempotency-Key")
		require.Contains(t, p.Log(), "death of the server")
	})
}

// A page that is loaded again while nobody knows what became of an order finds the order's key.
//
// CONTRACT C-1
func TestShopReloaded(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		b, p := openShop(t, framework)
		b.faultsOn("slow")
		b.click("#pay")
		b.until("document.querySelectorAll('#with tbody tr').length === 1 && document.querySelectorAll('#without tbody tr').length === 1")
		key := b.text("#with .headers")
		b.open(p.URL + "/")
		b.faultsOn()
		b.pays()
		require.Equal(t, map[string]int{"order-1": 1}, booked(b, "with"))
		require.Equal(t, map[string]int{"order-1": 2}, booked(b, "without"))
		require.Equal(t, key+"\nIdempotency-Result: reused\nIdempotent-Replayed: true", b.text("#with .headers"))
		require.Equal(t, "Order 1: paid 2 times without a key, once with a key.", b.text("#now"))
		b.pays()
		require.Equal(t, map[string]int{"order-1": 1, "order-2": 1}, booked(b, "with"), "the intent has ended: another order")
	})
}

// The Pay button's code follows docs/client.md. An answer is a line of JavaScript that returns it or throws.
//
// CONTRACT C-1, C-2
func TestPayButton(t *testing.T) {
	t.Parallel()
	b, _ := openShop(t, "gin")
	const paid = `new Response('{}', {status: 201, headers: {'Idempotency-Result': 'created'}})`
	problem := func(status int, header string) string {
		return fmt.Sprintf("new Response('{}', {status: %d, headers: {%s}})", status, header)
	}
	const noConnection = `Promise.reject(new TypeError('Failed to fetch'))`
	for _, test := range []struct {
		name    string
		answers []string
		status  int // 0: it has given up
		final   bool
		left    int // answers that were not asked for
	}{
		{"paid", []string{paid}, 201, true, 0},
		{"409 without Retry-After", []string{problem(409, ""), paid}, 409, false, 1},
		{"409 with Retry-After", []string{problem(409, "'Retry-After': '1'"), paid}, 201, true, 0},
		{"503 with Retry-After", []string{problem(503, "'Retry-After': '1', 'Idempotency-Result': 'unknown'"), paid}, 201, true, 0},
		{"502 of a proxy", []string{problem(502, ""), paid}, 201, true, 0},
		{"500 that is recorded", []string{problem(500, "'Idempotency-Result': 'created'"), paid}, 500, true, 1},
		{"500 that may have been applied", []string{problem(500, "'Idempotency-Result': 'unknown'"), paid}, 500, false, 1},
		{"an expired token", []string{problem(401, ""), paid}, 401, false, 1},
		{"no connection", []string{noConnection, noConnection, paid}, 201, true, 0},
		{"half an answer", []string{`new Response(new ReadableStream({start(c) { c.error(new TypeError('cut')) }}))`, paid}, 201, true, 0},
		{"never", []string{noConnection, noConnection, noConnection, noConnection, noConnection, noConnection, paid}, 0, false, 1},
	} {
		got := eval[struct {
			Status int
			Final  bool
			Left   int
			Keys   []string
		}](b, fmt.Sprintf(`import('/demo/files/pay.js').then(async ({post, keyOf, isFinal}) => {
			const answers = [%s], keys = [];
			const send = async (url, request) => { keys.push(request.headers['Idempotency-Key']); return answers.shift()(); };
			const res = await post('/', {key: keyOf(%q), body: '{}', send});
			return {Status: res?.status ?? 0, Final: isFinal(res), Left: answers.length, Keys: [...new Set(keys)]};
		})`, "() => "+strings.Join(test.answers, ", () => "), test.name))
		require.Equal(t, test.status, got.Status, test.name)
		require.Equal(t, test.final, got.Final, test.name)
		require.Equal(t, test.left, got.Left, test.name)
		require.Len(t, got.Keys, 1, "%s: all attempts have the same key", test.name)
		require.Regexp(t, "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$", got.Keys[0])
	}
	keys := eval[[]string](b, `import('/demo/files/pay.js').then(async ({uuidv7}) => {
		const keys = [];
		for (let n = 0; n < 5; n++) {
			keys.push(uuidv7());
			await new Promise((done) => setTimeout(done, 5));
		}
		return keys;
	})`)
	require.IsIncreasing(t, keys, "they begin with the time")
}

// A visitor without a mouse switches a fault on, pays, and starts over.
func TestShopByKeyboard(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		b, _ := openShop(t, framework)
		b.press(kb.Tab + kb.Enter)
		b.until(settled + " && document.querySelector('#without .verdict').textContent.includes('too much')")
		require.Equal(t, map[string]int{"order-1": 1}, booked(b, "with"))

		b.press(kb.Tab + " ") // the first switch: the answer is lost no more
		require.Equal(t, "lost", eval[string](b, "document.activeElement.value"))
		b.press(kb.Tab + kb.Tab + kb.Tab + " ") // the fourth one
		require.Equal(t, []string{"double"}, eval[[]string](b, "[...document.querySelectorAll(':checked')].map((box) => box.value)"))
		b.press(kb.Tab + kb.Tab + kb.Enter)
		b.until("document.querySelector('#with .verdict').textContent.includes('Nothing is paid')")
		require.Empty(t, booked(b, "without"))
		require.Empty(t, b.text("#with .requests"))

		// The regions that scroll can be reached, too.
		b.press(kb.Tab)
		require.Equal(t, "Ledger without a key", eval[string](b, "document.activeElement.ariaLabel"))
		for range 4 {
			b.press(kb.Tab)
		}
		b.press(kb.Enter)
		b.until("document.querySelector('#code pre').textContent.includes('export async function post')")
	})
}

// The page fits on a phone and on a wide screen, in both colours. It loads nothing from another host, and its own
// Content-Security-Policy stops nothing of it.
func TestShopLooks(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		b, p := openShop(t, framework)
		b.faultsOn()
		b.pays()
		b.quiet(p.URL)
		b.faultsOn("double", "devices")
		b.pays()
		b.until("document.querySelector('#without .verdict').textContent.includes('too much')")
		b.looks()
		require.NotContains(t, b.text("#with .requests"), "Refused")
	})
}

// The picture of the README: what the page shows after two presses.
func TestShopPicture(t *testing.T) {
	t.Parallel()
	b, _ := openShop(t, "gin")
	b.size(1280, 750)
	b.pays()
	b.pays()
	b.until("document.querySelector('#without .verdict').textContent.includes('4 payments for 2 orders')")
	b.until("document.querySelector('#with .verdict').textContent.includes('2 payments for 2 orders')")
	b.picture("shop")
}
