package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/internal/pgtest"
)

func TestMain(m *testing.M) {
	newFiberApp(nil) // starts a clock, once for the process
	// The store of gofiber's middleware cannot be closed, nor GORM's own cache.
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(),
		goleak.IgnoreTopFunction("github.com/gofiber/fiber/v3/internal/storage/memory.(*Storage).gc"),
		goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

// The parts that are not in the page run, too.
func TestPartsApart(t *testing.T) {
	x := &matrix{meter: meter{progress: silent}, only: []string{"floor", "hotkeys"}}
	x.shorten()
	require.NoError(t, x.open(t))
	require.NoError(t, x.run())
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

// The floor sends what the library sends, by the server's own log, and leaves what the library leaves: a record that
// it replays.
func TestFloor(t *testing.T) {
	d, err := openPostgres(t, 3)
	require.NoError(t, err)
	read := pgtest.Statements(t, d.url)
	d.pool.SetMaxIdleConns(0) // the log is that of new connections
	d.pool.SetMaxIdleConns(connections)

	for name, c := range map[string]cell{
		"Park, first":             {recovery: core.Park, kind: first},
		"Park, replay":            {recovery: core.Park, kind: hot},
		"Park, in flight":         {recovery: core.Park, kind: inFlight},
		"Rollback, first":         {recovery: core.Rollback, kind: first},
		"Rollback, replay":        {recovery: core.Rollback, kind: replay},
		"Rollback, in flight":     {recovery: core.Rollback, kind: inFlight},
		"Rollback with a row":     {recovery: core.Rollback, kind: first, work: gormRollback},
		"Rollback with a SQL row": {recovery: core.Rollback, kind: first, work: rawRollback},
		"Resume, one step":        {recovery: core.Resume, kind: first, work: oneStep},
		"Resume, three steps":     {recovery: core.Resume, kind: first, work: threeSteps},
	} {
		t.Run(name, func(t *testing.T) {
			statements, key, err := d.recorded(c)
			require.NoError(t, err)
			a, err := c.app(d.opened)
			require.NoError(t, err)
			require.NoError(t, a.send(guarded, newKey(), created))
			next, want, stop, err := c.kind.prepare(a, d.spread)
			require.NoError(t, err)
			read()
			require.NoError(t, d.toTheEnd(func() error { return a.send(guarded, next(), want) }))
			library := withoutTimeouts(read())
			require.NotEmpty(t, library)

			again := next()
			require.NoError(t, newFloor(d, statements, key).send(again))
			require.Equal(t, library, withoutTimeouts(read()))
			if stop != nil {
				require.NoError(t, stop())
			}
			require.NoError(t, a.send(guarded, again, reused))
			if c.work != nil {
				var rows int64
				require.NoError(t, d.db.Model(&entry{}).
					Where("operation_id = ?", core.Scoping{}.RecordID(principal, again).String()).Count(&rows).Error)
				require.EqualValues(t, 1, rows)
			}
		})
	}
}

// Commands of the floor do not get in each other's way, by a lock that they share for instance: a claim that is refused
// is no error, and would be a cheap one.
func TestFloorOfManyClients(t *testing.T) {
	d, err := openPostgres(t, 3)
	require.NoError(t, err)
	for _, recovery := range []core.Recovery{core.Park, core.Rollback} {
		statements, key, err := d.recorded(cell{recovery: recovery, kind: first})
		require.NoError(t, err)
		f := newFloor(d, statements, key)
		done, err := meter{duration: 50 * time.Millisecond, rounds: 1, progress: silent}.
			compare(8, always(recovery.String(), func() error { return f.send(newKey()) }))
		require.NoError(t, err)
		var completed int
		require.NoError(t, d.pool.QueryRow("SELECT count(*) FROM idempotency_record WHERE state = 2 AND recovery = $1",
			int64(recovery)).Scan(&completed))
		require.Equal(t, done[0].total().jobs, completed)
	}
}

// pgbench, too, completes what it claims.
func TestPgbench(t *testing.T) {
	bench := findPgbench(t.TempDir())
	if bench == nil {
		t.Skip("there is no pgbench here; the benchmark leaves it out as well")
	}
	d, err := openPostgres(t, 3)
	require.NoError(t, err)
	for _, recovery := range []core.Recovery{core.Park, core.Rollback} {
		statements, key, err := d.recorded(cell{recovery: recovery, kind: first})
		require.NoError(t, err)
		s, err := bench.side(d, newFloor(d, statements, key), first, newKey)
		require.NoError(t, err)
		done, err := s.turn(8, 0)
		require.NoError(t, err)
		require.Equal(t, 8, done.jobs)
		var completed int
		require.NoError(t, d.pool.QueryRow("SELECT count(*) FROM idempotency_record WHERE state = 2 AND recovery = $1",
			int64(recovery)).Scan(&completed))
		require.Equal(t, 8, completed)
	}
}

// withoutTimeouts takes what is left of a deadline out of statements.
func withoutTimeouts(statements []string) []string {
	for i := range statements {
		statements[i] = regexp.MustCompile(`timeout = \d+`).ReplaceAllString(statements[i], "timeout")
	}
	return statements
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
	d, err := openPostgres(t, 1)
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
