package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/internal/pgtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1")) // GORM's own cache
}

// short is a plan that takes seconds and measures nothing.
func short() plan {
	return plan{
		sizes: []int64{1000, 3000}, turn: 100 * time.Millisecond, rounds: 2, clients: 4, processes: 50, pace: 200, day: time.Second, days: 1,
		perDay: 100, few: 1000, memory: "32MB",
	}
}

// Every part of a run is carried out, and each of its figures finds its place in the page.
func TestRun(t *testing.T) {
	pgtest.Require(t)
	text, err := measure(t.Context(), short())
	require.NoError(t, err)
	for _, no := range []string{"NaN", "Inf", "%!"} {
		require.NotContains(t, text, no)
	}

	rows := map[string][][]string{} // by the first cell
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if len(cells) > 1 {
			rows[cells[0]] = append(rows[cells[0]], cells)
		}
	}
	for _, k := range []keys{uuidv7, random} {
		require.Equal(t, [][]string{{k.name + " keys", "1,000", "3,000"}}, rows[k.name+" keys"][:1])
		require.Len(t, rows[k.name+" keys, with a sweep"][0], 6)
	}
	for _, w := range commands {
		require.Len(t, rows[w.name+": per second"], 2, "of each kind of keys")
		require.Len(t, rows[w.name+": per second"][0], 3)
	}
	require.Len(t, rows["first requests, `Park`: WAL, bytes each"], 2)
	for _, kind := range []string{"answers", "tombstones"} {
		require.Len(t, rows[kind][0], 4)
	}
	require.Len(t, rows["bytes per record in the end"][0], 1+len(lives))
	require.Len(t, rows["the defaults: 3 days, tombstones of 30 days"][0], 3)
}

// What is generated is what the library would have written: it replays each live record, lists the unknown ones, and its
// sweep finds those that are due, and no others.
func TestGenerated(t *testing.T) {
	for _, k := range []keys{uuidv7, random} {
		t.Run(k.name, func(t *testing.T) { testGenerated(t, k) })
	}
}

func testGenerated(t *testing.T, k keys) {
	const n = 2000
	d := newFilled(t, n, k)
	require.Equal(t, map[store.State]int64{
		store.Expired: n / perTombstone, store.Unknown: n / perUnknown, store.Completed: n - n/perTombstone - n/perUnknown,
	}, d.states(t))
	dead, live, known := d.tombstones, d.tombstones+d.due, d.tombstones+d.due+d.unknown
	var before store.ID
	for i := range int64(n) {
		id := d.idOf(i)
		rec, err := d.store.Find(t.Context(), id)
		require.NoError(t, err)
		switch {
		case i < dead:
			require.Equal(t, store.Free, rec.State(), i)
		case i < live:
			require.Equal(t, store.Expired, rec.State(), i)
		case i < known:
			require.Equal(t, store.Unknown, rec.State(), i)
		default:
			require.NoError(t, d.isRecord(rec, i))
			require.Equal(t, []string{contentType}, rec.Answer.Header["Content-Type"])
			require.Len(t, rec.Answer.Body, bodyBytes)
		}
		require.True(t, d.made(i, d.filled).Equal(rec.CreatedAt), i)
		require.True(t, !k.timed || string(before[:6]) < string(id[:6]), "ids rise with the time")
		before = id
	}
	require.InDelta(t, 1699.0/71.5, d.lastHour(), 1)
	require.NoError(t, list(t.Context(), d))

	sweeper, stop, err := d.sweeping(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return sweeper.sum() == live }, 10*time.Second, time.Millisecond)
	require.NoError(t, stop())
	require.EqualValues(t, n/perDue, sweeper.tombstones.Load())
	require.EqualValues(t, n/perTombstone, sweeper.dropped.Load())
	require.Equal(t, map[store.State]int64{
		store.Expired: n / perDue, store.Unknown: n / perUnknown, store.Completed: n - live - n/perUnknown,
	}, d.states(t))
}

// What is counted has been done: a first request leaves one completed record, and a replay none.
func TestTurns(t *testing.T) {
	d := newFilled(t, fewest, uuidv7)
	before := d.states(t)
	for _, w := range commands {
		var m measured
		if d.apart = nil; w.apart {
			require.NoError(t, d.startProcesses(t.Context(), 3))
			require.NotSame(t, d.store, d.anyStore())
		}
		if w.adds {
			require.NoError(t, m.takeAndAdd(t.Context(), d, 4, 50*time.Millisecond, w.do))
		} else {
			require.NoError(t, m.take(t.Context(), d, 4, 0, 50*time.Millisecond, w.do))
		}
		require.GreaterOrEqual(t, m.jobs(), 4)
		require.Positive(t, m.percentile(0.5))
		if w.adds {
			before[store.Completed] += int64(m.jobs())
			require.Greater(t, m.each(m.written), float64(bodyBytes))
			require.Less(t, m.pages, m.written)
			require.True(t, m.pages > 0 || !d.inspects, "the first change of a page after a checkpoint writes it whole")
		}
		require.Equal(t, before, d.states(t), w.name)
	}
	boom := errors.New("boom")
	err := new(measured).take(t.Context(), d, 4, 0, time.Hour, func(context.Context, *database) error { return boom })
	require.ErrorIs(t, err, boom)
	require.ErrorContains(t, d.isRecord(store.Record{}, 7), "record 7 is")
}

// A stall counts for all commands that are due meanwhile.
func TestPace(t *testing.T) {
	d := newFilled(t, fewest, uuidv7)
	jobs := 0
	var m measured
	require.NoError(t, m.take(t.Context(), d, 1, 100, 200*time.Millisecond, func(context.Context, *database) error {
		if jobs++; jobs == 1 {
			time.Sleep(100 * time.Millisecond)
		}
		return nil
	}))
	late := 0
	for _, took := range m.turns[0] {
		if took > 20*time.Millisecond {
			late++
		}
	}
	require.GreaterOrEqual(t, late, 8)
	require.LessOrEqual(t, m.jobs(), 25)
}

// An interrupted run ends soon and says why.
func TestInterrupted(t *testing.T) {
	pgtest.Require(t)
	p := short()
	p.turn = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := measure(ctx, p)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestArguments(t *testing.T) {
	for args, want := range map[string]string{
		"-sizes 1000,x": "-sizes", "-sizes 999": "-sizes", "-sizes 3000,1000": "-sizes", "-turn 0s": "-turn", "-day 1ms": "-day",
	} {
		require.ErrorContains(t, command(t.Context(), strings.Fields(args)), want)
	}
	require.ErrorContains(t, command(t.Context(), []string{"-out", os.DevNull}), "no lines")
}

func TestFigures(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 20_000_000: "20,000,000"} {
		require.Equal(t, want, count(n))
	}
	m := measured{took: 2 * time.Second}
	turn, stalled := make([]time.Duration, 100), make([]time.Duration, 100)
	for i := range turn {
		turn[i], stalled[i] = time.Duration(i+1)*time.Millisecond, time.Hour
	}
	m.turns = [][]time.Duration{turn, stalled, turn}
	require.Equal(t, "51.00", ms(m.percentile(0.5)))
	require.Equal(t, "100.00", ms(m.percentile(0.99)))
	require.Equal(t, []string{"rate", "150", "300 (2.00)"},
		besideFirst("rate", []*measured{&m, {took: time.Second, turns: m.turns}}, count, (*measured).rate))
}

func newFilled(t *testing.T, n int64, k keys) *database {
	g, err := start(t, short())
	require.NoError(t, err)
	d, err := g.open("filled", k)
	require.NoError(t, err)
	require.NoError(t, d.fill(t.Context(), mixed(n)))
	return d
}

// states counts the records by what is stored.
func (d *database) states(t *testing.T) map[store.State]int64 {
	t.Helper()
	rows, err := d.pool.QueryContext(t.Context(), "SELECT state, count(*) FROM idempotency_record GROUP BY state")
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	found := map[store.State]int64{}
	for rows.Next() {
		var stored int16
		var n int64
		require.NoError(t, rows.Scan(&stored, &n))
		found[store.State(stored)] = n
	}
	require.NoError(t, rows.Err())
	return found
}
