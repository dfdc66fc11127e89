package drill

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
)

const (
	clients = 6
	stage   = 2 * time.Second
)

// places are where two apps are to be found.
type places [2]atomic.Pointer[apptest.Process]

// underLoad upgrades two apps, one after the other, takes it back, and upgrades them again, while clients pay and refund. Every
// second app is killed, the others end what they have begun.
func underLoad(t *testing.T, older, newer side) {
	url := pgtest.URL(t)
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	var at places
	for i := range at {
		at[i].Store(start(t, older, url))
	}
	l := &load{places: &at, tokens: at[0].Load().Tokens}
	var working sync.WaitGroup
	for i := range clients {
		working.Go(func() { l.work(t.Context(), i) })
	}
	for i, s := range []side{newer, newer, older, older, newer, newer} {
		l.stay(t, i == 4)
		p := &at[i%2]
		if app := p.Load(); i%4 < 2 {
			app.Kill(t)
		} else {
			require.Zero(t, app.Stop(t), app.Log())
		}
		p.Store(start(t, s, url))
	}
	l.stay(t, false)
	l.over.Store(true)
	working.Wait()

	t.Logf("%d commands, %d answers of the older side: another release's", len(l.done), l.refused.Load())
	require.Empty(t, l.wrong)
	want := map[string]map[string]int{}
	for _, c := range l.done {
		want[c.id.String()] = c.effects
	}
	require.Equal(t, want, effects(t, db))
}

// stay lets the apps work together, until there is something to see. Two older ones refuse what newer ones have begun: in time
// every client waits.
func (l *load) stay(t testing.TB, older bool) {
	began, carried, refused := time.Now(), l.carried.Load(), l.refused.Load()
	for older && l.refused.Load() == refused || !older && l.carried.Load() < carried+2*clients || time.Since(began) < stage {
		require.Less(t, time.Since(began), patience, "%d commands, %d refused", l.carried.Load(), l.refused.Load())
		time.Sleep(stage / 100)
	}
}

// load is what clients send, and what they have got.
type load struct {
	places  *places
	tokens  map[string]string
	over    atomic.Bool
	carried atomic.Int64 // commands to their end
	refused atomic.Int64 // answers 503

	mu    sync.Mutex
	done  []answered
	wrong []string
}

type answered struct {
	command
	body string
}

// work sends one command after the other, and now and then one that was answered before.
func (l *load) work(ctx context.Context, client int) {
	kinds := []kind{payment, refund}
	var mine []answered
	for n := 0; !l.over.Load() && ctx.Err() == nil; n++ {
		send := func(c command) apptest.Response {
			answer := l.persist(ctx, c.Request, n+client)
			if answer.Status != http.StatusCreated {
				l.say("%s: %d %s", c.Key, answer.Status, answer.Body)
			}
			mine = append(mine, answered{c, answer.Body})
			l.carried.Add(1)
			return answer
		}
		send(kinds[n%2](send, l.tokens, fmt.Sprintf("%d-%d", client, n)))
		if old := mine[len(mine)/2]; n%4 == 0 {
			if again := l.persist(ctx, old.Request, n); again.Body != old.body {
				l.say("%s: %d %s, and before %s", old.Key, again.Status, again.Body, old.body)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, mine...)
}

// persist repeats a command at one app after the other until its answer is final.
func (l *load) persist(ctx context.Context, r apptest.Request, n int) (answer apptest.Response) {
	for ; ctx.Err() == nil; n++ {
		var err error
		if answer, err = l.places[n%2].Load().Try(ctx, r); err == nil && final(answer) {
			return answer
		}
		if err == nil && answer.Code() == string(core.CodeStoreUnavailable) {
			l.refused.Add(1)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return answer
}

func (l *load) say(format string, a ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf(format, a...))
}
