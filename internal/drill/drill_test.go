package drill

import (
	"flag"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/crashtest"
	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
	"github.com/auth19/idem/internal/testhost"
)

func TestMain(m *testing.M) {
	testhost.RunFour()
	goleak.VerifyTestMain(m)
}

var upgrade = flag.Bool("upgrade", false, "builds an older app from history, and upgrades it")

// Each life of the app ends by SIGKILL, at the next point between two statements, and the next life is one of the other side.
// Nothing is doubled or lost on the way there and back. What the newer side has begun, the older one answers with 503 and leaves
// alone, also what is sealed and no more than that; it lists and sweeps it; and the newer side goes on with it when it comes back.
//
// CONTRACT H-4, X-2, X-3, X-4
func TestUpgrade(t *testing.T) {
	if !*upgrade {
		t.Skip("go test ./internal/drill -upgrade")
	}
	pgtest.Require(t)
	older, newer, sealer := build(t)
	t.Run("points", func(t *testing.T) {
		for name, c := range map[string]struct {
			newer       side
			route       kind
			from, every int // of the points
		}{
			"payment": {newer, payment, 0, 1}, "payout": {newer, payout, 0, 1},
			"refund": {newer, refund, 0, 2}, "refund, the other half": {newer, refund, 1, 2},
			"sealed payment": {sealer, payment, 0, 2}, "sealed payout": {sealer, payout, 0, 2}, "sealed refund": {sealer, refund, 0, 3},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l, newer := newLane(t), c.newer
				events := map[string]int{older.name: l.measure(older, c.route), newer.name: l.measure(newer, c.route)}
				t.Logf("statements and calls: %v", events)
				for point := c.from; point <= max(events[older.name], events[newer.name]); point += c.every {
					at := crashtest.Point{Event: max(point-1, 0), After: point > 0}
					if point <= events[older.name] {
						l.forward(older, newer, c.route, at)
					}
					if point <= events[newer.name] {
						l.back(newer, older, c.route, at)
					}
				}
				require.NotZero(t, l.left, "the older app has taken every command for a new one")
				l.sweeps(older, newer, c.route)
			})
		}
	})
	t.Run("under load", func(t *testing.T) { underLoad(t, older, newer) })
}

// measure counts the events of a command without a crash. On a busy machine the first answer may not be final: then it tries
// again.
func (l *lane) measure(s side, route kind) int {
	l.be(s)
	l.persist(l.command(route)) // what a process does only once is done
	for {
		c := l.command(route)
		answer, err := l.app.Try(l.Context(), c.Request)
		events := len(l.gates.Events())
		if err != nil || !final(answer) || c.unknown && answer.Code() == string(core.CodeOutcomeUnknown) {
			continue
		}
		require.Equal(l, http.StatusCreated, answer.Status, answer.Body)
		require.Equal(l, c.effects, l.effects(c))
		require.NotZero(l, events)
		return events
	}
}

// crash sends a new command to an app of the side, and kills it at the point. There is an answer if it came before.
func (l *lane) crash(s side, route kind, at crashtest.Point) (c command, answers []apptest.Response) {
	l.Helper()
	l.be(s)
	l.persist(l.command(payment))
	c = l.command(route)
	fault, app, early := l.gates.Strike(at), l.app, make(chan apptest.Response, 1)
	go func() {
		defer close(early)
		if answer, err := app.Try(l.Context(), c.Request); err == nil {
			early <- answer
		}
	}()
	select {
	case <-fault.Reached:
		l.kill()
		if answer, ok := <-early; ok {
			answers = append(answers, answer)
		}
	case answer, ok := <-early:
		l.kill()
		if ok {
			answers = append(answers, answer)
		}
	}
	return c, answers
}

// forward kills the older app in the middle of a command, and the newer one ends it.
func (l *lane) forward(older, newer side, route kind, at crashtest.Point) {
	l.Helper()
	c, answers := l.crash(older, route, at)
	l.be(newer)
	l.check(c, append(answers, l.persist(c)), at)
}

// back kills the newer app in the middle of a command. The older one leaves alone what there is of it, and the newer one ends it.
// If nothing is there, the command is a new one for the older app.
func (l *lane) back(newer, older side, route kind, at crashtest.Point) {
	l.Helper()
	c, answers := l.crash(newer, route, at)
	time.Sleep(lease) // so that Run may go on with it, as soon as it begins
	l.be(older)
	var last apptest.Response
	l.until(apptest.Request{Method: http.MethodGet, Path: "/readyz"}, isOK) // each loop of Run has had its round
	before, there := row{}, false
	l.until(c.Request, func(answer apptest.Response) bool {
		last = answer
		before, there = l.record(c)
		return final(answer) || there && before.Version == 2 || isUnreadable(answer)
	})
	if final(last) {
		l.check(c, append(answers, l.persist(c)), at)
		return
	}
	l.left++
	done := l.effects(c)
	if before.Version == 2 { // else it has to begin an attempt, to learn that it cannot read a step, and they are counted
		for range 3 {
			l.refuses(c)
		}
		after, _ := l.record(c)
		require.Equal(l, before, after, "%v: the older app has changed the record of the newer one", at)
	}
	require.Equal(l, done, l.effects(c), "%v: the older app has run a command of the newer one", at)
	l.lists(c)
	l.be(newer)
	l.check(c, append(answers, l.persist(c)), at)
}

func isOK(answer apptest.Response) bool { return answer.Status == http.StatusOK }

// isUnreadable reports whether the answer is that of an app that has not the key of what is sealed.
func isUnreadable(answer apptest.Response) bool {
	return answer.Status == http.StatusServiceUnavailable && strings.Contains(answer.Body, "cannot read what is recorded")
}

// refuses asserts that the app refuses a repeat of a command that it cannot compare, or cannot read.
func (l *lane) refuses(c command) {
	l.Helper()
	answer := l.until(c.Request, func(apptest.Response) bool { return true })
	require.Equal(l, http.StatusServiceUnavailable, answer.Status, answer.Body)
	require.Equal(l, string(core.CodeStoreUnavailable), answer.Code(), answer.Body)
}

// lists asserts that operators find the command's operation, and in its list if it needs one.
func (l *lane) lists(c command) {
	l.Helper()
	get := apptest.Request{Method: http.MethodGet, Path: "/v1/operations/" + c.id.String(), Token: l.app.Tokens["operator-1"]}
	var operation struct{ ID, State string }
	l.until(get, isOK).Decode(l, &operation)
	require.Equal(l, c.id.String(), operation.ID)
	if operation.State != "unknown" && operation.State != "half_done" {
		return
	}
	get.Path = "/v1/operations?limit=500&state=" + operation.State
	list := []struct{ ID string }{}
	l.until(get, isOK).Decode(l, &list)
	require.Contains(l, list, struct{ ID string }{c.id.String()})
}

// check asserts that the command was carried out once, and that no answer contradicts another.
func (l *lane) check(c command, answers []apptest.Response, at crashtest.Point) {
	l.Helper()
	var first apptest.Response
	for _, answer := range answers {
		switch {
		case !final(answer), c.unknown && answer.Code() == string(core.CodeOutcomeUnknown):
			continue
		case first.Status == 0:
			first = answer
		}
		require.Equal(l, http.StatusCreated, answer.Status, "%v: %s", at, answer.Body)
		require.Equal(l, first.Body, answer.Body, "%v: two answers", at)
	}
	is := l.effects(c)
	if first.Status == 0 && c.unknown {
		for name, count := range is {
			require.LessOrEqual(l, count, c.effects[name], "%v: %s", at, name)
		}
		return
	}
	require.NotZero(l, first.Status)
	require.Equal(l, c.effects, is, "%v", at)
}

// sweeps lets a record of the newer side come to its end: the older one answers 503 until then, and sweeps it.
func (l *lane) sweeps(older, newer side, route kind) {
	l.Helper()
	l.be(newer)
	c := l.command(route)
	for l.persist(c).Status != http.StatusCreated { // a payout whose attempt was lost on a busy machine
		require.True(l, c.unknown)
		c = l.command(route)
	}
	l.be(older)
	l.refuses(c)
	l.lists(c)
	l.kill()
	_, err := l.db.ExecContext(l.Context(), "UPDATE idempotency_record SET expires_at = 1, purge_at = 1, due_at = 1 WHERE id = $1", c.id[:])
	require.NoError(l, err)
	l.be(older)
	require.Eventually(l, func() bool { _, there := l.record(c); return !there }, patience, lease/10)
}
