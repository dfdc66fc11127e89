package main

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/internal/pgtest"
)

func TestMain(m *testing.M) {
	// GORM's own cache cannot be closed.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

// Every way runs, and every figure is in the report.
func TestRun(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the proxy needs Linux")
	}
	b := &benchmark{meter: meter{progress: silent}, clients: 2, spread: 3, commands: 5}
	o, err := b.run(t, 0)
	require.NoError(t, err)
	require.Equal(t, 1, b.rounds)
	text := b.tell(o)
	for _, w := range []way{
		bare, oneTransaction, claimFirst, rollback, twoStatements, park, oneSelect, replay, sealedReplay, twoBare, resume,
		ginBare, ginRollback,
	} {
		require.Contains(t, text, "| "+w.name, w.name)
	}
	require.Contains(t, text, " at 1 ms |")
	require.Contains(t, text, " on SQLite |")
	for _, no := range []string{"NaN", "Inf", "%!"} {
		require.NotContains(t, text, no)
	}

	// What is counted does not depend on the machine.
	for way, want := range map[string]counts{
		bare.name: {commits: 1, roundTrips: 3}, oneTransaction.name: {commits: 1, roundTrips: 5},
		twoStatements.name: {commits: 2, roundTrips: 2}, oneSelect.name: {roundTrips: 1}, twoBare.name: {commits: 2, roundTrips: 6},
	} {
		got := o.counts[way]
		if got.wal == 0 {
			require.Equal(t, oneSelect.name, way)
		}
		got.wal = 0
		require.Equal(t, want, got, way)
	}
}

// What is written by hand runs once for a key, and answers repeats as the first request.
func TestByHand(t *testing.T) {
	on, err := openPool(t, pgtest.URL(t))
	require.NoError(t, err)
	for _, s := range []style{plainSQL, withGORM} {
		for _, w := range []way{oneTransaction, claimFirst, twoStatements, oneSelect} {
			app, key := w.open(app{s, on}), newKey()
			for range 3 {
				require.NoError(t, send(app, key, plain))
			}
			var status int
			var body []byte
			require.NoError(t, on.pool.QueryRow("SELECT status, body FROM by_hand WHERE key = $1", key).Scan(&status, &body))
			require.Equal(t, 201, status)
			require.Equal(t, payload, body)
			var rows int64
			require.NoError(t, on.db.Model(&entry{}).Where("key = ?", key).Count(&rows).Error)
			require.EqualValues(t, map[string]int{oneTransaction.name: 1, claimFirst.name: 1}[w.name], rows, w.name)
		}
	}
}

// The ways of the library write the same row as those beside which they stand.
func TestRows(t *testing.T) {
	on, err := openPool(t, pgtest.URL(t))
	require.NoError(t, err)
	for _, s := range []style{plainSQL, withGORM} {
		for amount, ways := range map[string][]way{"12.34": {bare, rollback, ginBare, ginRollback}, "0.00": {twoBare, resume}} {
			for _, w := range ways {
				key := newKey()
				require.NoError(t, send(w.open(app{s, on}), key, w.first))
				var all []entry
				require.NoError(t, on.db.Where("key = ?", key).Find(&all).Error)
				require.Len(t, all, 1)
				require.Equal(t, amount, all[0].Amount, w.name)
			}
		}
	}
}

func message(kind byte, body int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(body+4)), make([]byte, body)...)
}

// Messages are found wherever the network cuts them, and no letter inside of one is taken for another.
func TestMessages(t *testing.T) {
	tricky := message('D', 7)
	copy(tricky[5:], message('Z', 1))
	stream := append(append(append(message('Z', 1), tricky...), message('1', 0)...), message('Z', 1)...)
	for size := 1; size <= len(stream); size++ {
		var m messages
		n := 0
		for rest := stream; len(rest) > 0; {
			part := rest[:min(size, len(rest))]
			rest = rest[len(part):]
			n += m.ready(part)
		}
		require.Equal(t, 2, n, fmt.Sprint(size))
	}
}

// A link that is slower than it says is void.
func TestVoid(t *testing.T) {
	turns := func(middles ...time.Duration) (all []turn) {
		for i, m := range middles {
			all = append(all, turn{jobs: i + 1, took: time.Second, middle: m})
		}
		return all
	}
	f := figures{
		{side{inSQL, bare.name, nil}, turns(linkLimit, linkLimit-1, 2*linkLimit)},
		{side{inSQL, rollback.name, nil}, turns(1, 1, 1)},
	}
	require.Equal(t, 2, f.dropVoid())
	require.Len(t, f[1].turns, 1)
	require.Equal(t, "1.00 (1.00 to 1.00)", f.ratio(inSQL, rollback, bare, turn.rate))
	f.keep(nil)
	require.Equal(t, "void", f.ratio(inSQL, rollback, bare, turn.rate))
	require.Equal(t, "void", f.way(inSQL, bare))
	require.Empty(t, f.ratio(inGORM, rollback, bare, turn.rate))
}

// An error ends a comparison, and an answer other than the expected one is an error: nothing else is measured unseen.
func TestUnexpected(t *testing.T) {
	s, err := openService("Echo")
	require.NoError(t, err)
	app, key := s.at(guardedPath), newKey()
	require.NoError(t, send(app, key, created))
	m := meter{rounds: 1, progress: silent}
	_, err = m.compare(comparison{2, []side{{"repeats", "Park", func() error { return send(app, key, created) }}}})
	require.ErrorContains(t, err, `repeats, Park: the answer is 201 "reused", not 201 "created"`)
}

func TestArguments(t *testing.T) {
	require.ErrorContains(t, command([]string{"-clients", "0"}), "-clients")
	require.ErrorContains(t, command([]string{"-turn", "0s"}), "-turn")
	require.ErrorContains(t, command([]string{"-docs", t.TempDir()}), "performance.md")
}

func TestJSONBody(t *testing.T) {
	for _, size := range []int{100, 101, 10_000} {
		body := jsonBody(size)
		require.Len(t, body, size)
		require.JSONEq(t, string(body), string(body))
	}
}
