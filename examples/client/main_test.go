package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/cutproxy"
)

func TestMain(m *testing.M) {
	// GORM's prepared statements are never let go.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

// row reads a number of the table.
func row(t *testing.T, printed, name string) int {
	t.Helper()
	found := regexp.MustCompile(`(?m)^ *` + name + ` +(\d+)$`).FindStringSubmatch(printed)
	require.Len(t, found, 2, printed)
	n, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	return n
}

// CONTRACT C-1, C-2
func TestOneCommand(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-intents", "100", "-clients", "8"}, &out), &out)
	require.Contains(t, out.String(), "\rpaid 100 of 100")
	require.Equal(t, 100, row(t, out.String(), "intents"))
	require.Equal(t, 100, row(t, out.String(), "ledger entries"))
	require.Equal(t, 100, row(t, out.String(), "booked here"))
	require.Greater(t, row(t, out.String(), "attempts"), 100)
	require.Positive(t, row(t, out.String(), "connections cut"))
}

// A client that was interrupted goes on with its journal.
//
// CONTRACT C-1
func TestGoOn(t *testing.T) {
	app := apptest.Start(t, apptest.Build(t, "github.com/auth19/idem/examples/gin"), t.TempDir())
	args := []string{
		"-url", app.URL, "-token", app.Tokens["customer-1"], "-journal", filepath.Join(t.TempDir(), "client.db"),
	}
	ctx, interrupt := context.WithCancel(t.Context())
	err := run(ctx, append(args, "-intents", "300", "-clients", "1"), onProgress(interrupt))
	require.ErrorIs(t, err, context.Canceled)

	var out strings.Builder
	require.NoError(t, run(t.Context(), append(args, "-intents", "10"), &out), &out)
	require.Equal(t, 310, row(t, out.String(), "intents"))
	require.Equal(t, 310, row(t, out.String(), "ledger entries"))
}

// Another process has ended the purchase. It is not paid again, and if it was paid all the same, the rows must say so.
//
// CONTRACT C-6
func TestPurchaseThatHasEnded(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("nothing is sent") }))
	defer app.Close()
	o := options{url: app.URL, journal: filepath.Join(t.TempDir(), "client.db")}
	p, err := openPayer(t.Context(), o, http.DefaultTransport)
	require.NoError(t, err)
	defer p.close()
	require.NoError(t, p.plan(1))
	bought, err := p.planned()
	require.NoError(t, err)
	require.NoError(t, p.db.Transaction(func(tx *gorm.DB) error { return p.journal.Done(tx, bought[0].Order) }))

	require.NoError(t, p.pay(t.Context(), bought[0].Order))
	require.ErrorContains(t, p.book(t.Context(), bought[0]), "the purchase has ended without that")
	require.NoError(t, p.db.Model(&bought[0]).Update("paid", true).Error)
	require.NoError(t, p.book(t.Context(), bought[0]))
}

// onProgress calls fn when something is paid.
func onProgress(fn func()) io.Writer {
	paid := regexp.MustCompile(`paid [1-9]`)
	return writer(func(p []byte) (int, error) {
		if paid.Match(p) {
			fn()
		}
		return len(p), nil
	})
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestReport(t *testing.T) {
	intents := []purchase{{Order: "a", Paid: true}, {Order: "b", Paid: true}}
	require.Error(t, report(io.Discard, []purchase{{Order: "a"}}, map[string]int{"a": 1}, &payer{}, cutproxy.Stats{}), "not booked")
	for name, entries := range map[string]map[string]int{
		"doubled": {"a": 2, "b": 1}, "lost": {"a": 1, "b": 0}, "doubled and lost": {"a": 2, "b": 0},
	} {
		require.Error(t, report(io.Discard, intents, entries, &payer{}, cutproxy.Stats{}), name)
	}
	require.NoError(t, report(io.Discard, intents, map[string]int{"a": 1, "b": 1}, &payer{}, cutproxy.Stats{}))
}

func TestOptions(t *testing.T) {
	for _, args := range []string{
		"-url http://127.0.0.1:1", "-token eyJ", "-url nowhere -token eyJ", "-url https://127.0.0.1:1 -token eyJ", "-journal x.db",
		"-intents -1", "-clients 0", "more",
	} {
		require.Error(t, run(t.Context(), strings.Fields(args), io.Discard), args)
	}
	require.NoError(t, run(t.Context(), []string{"-h"}, io.Discard))
}
