package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

func TestMain(m *testing.M) {
	newFiberApp(nil) // starts a clock, once for the process
	// The store of gofiber's middleware cannot be closed, nor GORM's own cache.
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(),
		goleak.IgnoreTopFunction("github.com/gofiber/fiber/v3/internal/storage/memory.(*Storage).gc"),
		goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

// The part that is not in the page runs, too.
func TestPartApart(t *testing.T) {
	x := &matrix{meter: meter{progress: silent, rounds: 1}, only: []string{"hash"}, sizes: []int{100}}
	require.NoError(t, x.run())
	require.Regexp(t, `(?m)^\| 100 \| [\d.]+ \| [\d.]+ \|$`, x.report.String())
}

// Every part of the page runs, and its figures find their place there.
func TestMatrix(t *testing.T) {
	x := &matrix{meter: meter{progress: silent}, sizes: []int{100, 10_000, 1_000_000}}
	x.shorten()
	require.NoError(t, x.open(t))
	require.NoError(t, x.machine(time.Now()))
	require.NoError(t, x.run())

	docs := t.TempDir()
	begins, ends := "<!-- benchmarks: made by internal/benchmarks, do not edit -->\n", "<!-- /benchmarks -->\n"
	name := filepath.Join(docs, "performance.md")
	require.NoError(t, os.WriteFile(name, []byte(begins+ends), 0o600))
	into, err := openPage(docs)
	require.NoError(t, err)
	require.NoError(t, x.report.write(into, docs))
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, begins+x.report.String()+ends, string(text))
	if runtime.GOOS == "linux" {
		require.Regexp(t, `(?m)^\| .Park., first request .*\| \d+( \+ \d+)? \(\d+( \+ \d+)?\) \|$`, string(text))
	}
	for _, no := range []string{"NaN", "Inf", "%!"} {
		require.NotContains(t, string(text), no)
	}
	for _, plot := range []string{"bodies.svg", "clients.svg"} {
		require.Contains(t, string(text), plotFolder+"/"+plot)
		require.FileExists(t, filepath.Join(docs, plotFolder, plot))
	}
}

// gofiber's middleware really answers replays, and really runs the handler for new keys.
func TestFiber(t *testing.T) {
	a := newFiberApp(jsonBody(smallBody))
	key := newKey()
	for range 3 {
		require.NoError(t, a.send(guarded, key))
	}
	require.Equal(t, 1, a.runs)
	require.NoError(t, a.send(guarded, newKey()))
	require.NoError(t, a.send(bare, key))
	require.Equal(t, 3, a.runs)
}

// What is written by hand runs the handler once for a key, and answers repeats as the first request.
func TestByHand(t *testing.T) {
	d, err := openPostgres(t)
	require.NoError(t, err)
	for _, h := range []byHand{{}, {looksFirst: true}, {inTransaction: true}, {inTransaction: true, looksFirst: true}} {
		h.on = d.opened
		a, err := h.app()
		require.NoError(t, err)
		key := newKey()
		for range 3 {
			require.NoError(t, a.send(byHandPath, key, plain))
		}
		var kept []byte
		require.NoError(t, d.pool.QueryRow("SELECT answer FROM by_hand WHERE key = $1", key).Scan(&kept))
		require.Equal(t, a.body, kept)
		var rows int64
		require.NoError(t, d.db.Model(&entry{}).Where("operation_id = ?", key).Count(&rows).Error)
		require.EqualValues(t, map[bool]int{true: 1}[h.inTransaction], rows)
	}
}

func TestJSONBody(t *testing.T) {
	for _, size := range []int{100, 101, 10_000, 1_000_000} {
		body := jsonBody(size)
		require.Len(t, body, size)
		require.JSONEq(t, string(body), string(body))
	}
}

func silent(string, ...any) {}

// An error ends a comparison, and an answer other than the expected one is an error: nothing else is measured unseen.
func TestUnexpected(t *testing.T) {
	a, err := service{framework: "Echo", store: memstore.New(), body: jsonBody(smallBody), recovery: core.Park}.open()
	require.NoError(t, err)
	key := newKey()
	require.NoError(t, a.send(guarded, key, created))
	m := meter{rounds: 1, progress: silent}
	_, err = m.compare(2, always("repeats", func() error { return a.send(guarded, key, created) }))
	require.ErrorContains(t, err, `repeats: /v1/payments: the answer is 201 "reused", not 201 "created"`)
}

// Noise below 0 has no place on a logarithmic axis.
func TestPlot(t *testing.T) {
	svg, err := linePlot{at: []int{1, 10}, series: []series{{name: "above", values: []float64{-1, 5}}, {name: "below", values: []float64{-1, 0}}}}.
		svg("a plot")
	require.NoError(t, err)
	require.Contains(t, string(svg), "above")
	require.NotContains(t, string(svg), "below")
}

func TestDigits(t *testing.T) {
	for want, v := range map[string]float64{"1.23": 1.234, "12.3": 12.34, "123": 123.4, "1230": 1234, "12300": 12345} {
		require.Equal(t, want, digits(v))
	}
}

func TestArguments(t *testing.T) {
	require.ErrorContains(t, command([]string{"-clients", "1,x"}), "-clients")
	require.ErrorContains(t, command([]string{"-rounds", "0"}), "-rounds")
	require.ErrorContains(t, command([]string{"-only", "bodies,x"}), "-only")
}
