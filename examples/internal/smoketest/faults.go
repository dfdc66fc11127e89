package smoketest

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/crashtest"
	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
)

// Crashes between two statements are for package crash. Here the app is paused there, and goes on.

// lease is short, so that a takeover comes soon.
const lease = time.Second

// pair is two instances on one database: one whose statements pass gates, and another. They make one refund after the
// other.
type pair struct {
	gates   *crashtest.Gates
	app     *app
	other   *app
	made    int // refunds
	failing bool
}

// newPair starts the instances.
func newPair(t *testing.T, program, isolation string) *pair {
	database, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	query := database.Query()
	query.Set("default_transaction_isolation", isolation)
	database.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // a plus sign is one in such a URL
	p := &pair{gates: crashtest.NewGates()}
	t.Cleanup(p.gates.Close)
	gated, err := p.gates.Postgres(database.String())
	require.NoError(t, err)
	start := func(database, deadline string) *app {
		a := &app{t: t, program: program, dir: t.TempDir(), env: []string{
			"DATABASE_URL=" + database, "LEASE=" + lease.String(), "DEADLINE=" + deadline,
		}}
		a.start()
		return a
	}
	p.app, p.other = start(gated, "10s"), start(database.String(), "2s")
	return p
}

// newRefund returns a refund of 4.00 of a new payment, with all instances at rest before its first statement.
func (p *pair) newRefund(t *testing.T) (refunds string, command apptest.Request) {
	p.app.t, p.other.t = t, t
	p.made++
	refunds = p.app.pay(fmt.Sprint("pay-", p.made))
	require.NoError(t, p.gates.Rest(30*time.Second))
	p.gates.Count()
	return refunds, post(p.app, customer, refunds, fmt.Sprint("refund-", p.made), refund("4.00"))
}

// scene is a refund that has come to a point of its work.
type scene struct {
	*pair
	t          *testing.T
	refunds    string // of its payment
	command    apptest.Request
	statements []string // of the whole refund
	at         crashtest.Point
	fault      *crashtest.Fault
	answers    <-chan answer
}

// pausedEverywhere runs a test at every point before a statement of a refund. Several run at a time, because most of
// their time is waiting for a lease.
func pausedEverywhere(t *testing.T, program, isolation string, test func(s *scene)) {
	pgtest.Require(t) // here, and not in the goroutines that start the pairs
	pairs := make([]*pair, 5)
	var starting sync.WaitGroup
	for i := range pairs {
		starting.Go(func() { pairs[i] = newPair(t, program, isolation) })
	}
	starting.Wait()
	require.False(t, t.Failed())
	_, command := pairs[0].newRefund(t)
	answer := pairs[0].app.Do(t, command)
	require.Equal(t, http.StatusCreated, answer.Status, answer.Body)
	statements := pairs[0].gates.Events()
	require.NotEmpty(t, statements)

	points := make(chan crashtest.Point)
	var workers sync.WaitGroup
	for _, p := range pairs {
		workers.Go(func() {
			for at := range points {
				p.failing = !t.Run(at.String(), func(t *testing.T) {
					require.False(t, p.failing, "the instances were left in an unknown state by the point before")
					s := &scene{pair: p, t: t, statements: statements, at: at}
					s.reach()
					test(s)
				})
			}
		})
	}
	for i := range statements {
		points <- crashtest.Point{Event: i}
	}
	close(points)
	workers.Wait()
}

// reach sends a refund and waits until it has come to the point. Where a sweep has come between, the next refund is
// tried.
func (s *scene) reach() {
	s.t.Helper()
	for range 3 {
		s.refunds, s.command = s.newRefund(s.t)
		s.fault = s.gates.Strike(s.at)
		process, ctx, answers := s.app.Process, s.t.Context(), make(chan answer, 1)
		go func() {
			response, err := process.Try(ctx, s.command)
			answers <- answer{response, err}
		}()
		s.answers = answers
		select {
		case <-s.fault.Reached:
		case early := <-answers:
			require.Fail(s.t, "answered before the fault", "%+v", early)
		}
		if slices.Equal(s.statements[:s.at.Event+1], s.gates.Events()) {
			return
		}
		s.fault.Release(true)
		<-s.answers // the sweep may have got in its way: 503
		require.Equal(s.t, http.StatusCreated, s.app.persist(s.command).Status)
	}
	require.Equal(s.t, s.statements[:s.at.Event+1], s.gates.Events(), "the statements are those of a run without a fault")
}

// check asserts that 4.00 of the payment are refunded, everywhere and once.
func (s *scene) check(final apptest.Response) {
	s.t.Helper()
	require.Equal(s.t, http.StatusCreated, final.Status, final.Body)
	s.other.checkRefunded(slices.Repeat([]string{"4.00"}, s.made)...)
	tooHigh := s.other.post(customer, s.refunds, fmt.Sprint("more-", s.made), refund("6.01"))
	s.other.checkProblem(tooHigh, http.StatusConflict, "refund_exceeds_payment")
}

// persist sends a command as a client does that repeats what can be repeated, and asserts that a further repeat gets
// the same answer.
func (a *app) persist(command apptest.Request) apptest.Response {
	a.t.Helper()
	answer := a.Until(a.t, &command, func(r apptest.Response) bool { return r.Code() != "in_flight" && r.Status < 500 })
	again := a.Do(a.t, command)
	require.Equal(a.t, answer.Status, again.Status)
	require.Equal(a.t, answer.Body, again.Body)
	return answer
}

// overtaken pauses the app between every two statements of a refund, for longer than its lease, and lets another
// instance continue. The paused one changes nothing any more when it wakes up.
//
// CONTRACT X-2
func overtaken(t *testing.T, program string) {
	for _, isolation := range []string{"read committed", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			pausedEverywhere(t, program, isolation, func(s *scene) {
				require.NoError(s.t, s.app.Pause())
				overtook := s.other.overtake(s.command)
				if !holdsLocks(s.statements[:s.at.Event]) {
					s.check(overtook)
				}

				require.NoError(s.t, s.app.Continue())
				s.fault.Release(true)
				late := <-s.answers
				require.NoError(s.t, late.err)
				final := s.other.persist(s.command)
				s.check(final)
				for _, r := range []apptest.Response{overtook, late.Response} {
					if r.Status == http.StatusCreated {
						require.Equal(s.t, final.Body, r.Body)
					}
				}
			})
		})
	}
}

// holdsLocks reports whether an attempt that is paused after these statements is in the middle of a transaction. Then
// others may have to wait for it.
func holdsLocks(statements []string) bool {
	for i, statement := range slices.Backward(statements) {
		switch word, _, _ := strings.Cut(strings.ToUpper(statement), ";"); word { // a step's BEGIN comes with its guards
		case "COMMIT":
			return false
		case "BEGIN":
			return i < len(statements)-1
		}
	}
	return false
}

// overtake repeats a command until it is done, or until it is clear that the paused attempt cannot be overtaken.
func (a *app) overtake(command apptest.Request) (last apptest.Response) {
	for deadline := time.Now().Add(2 * lease); time.Now().Before(deadline); time.Sleep(lease / 20) {
		if last = a.Do(a.t, command); last.Status < 300 {
			break
		}
	}
	return last
}

// wakesUnsettled pauses the app between every two statements of a refund, for longer than its lease, without a
// repeat meanwhile: it may still complete, and a repeat completes what it has left.
//
// CONTRACT X-2
func wakesUnsettled(t *testing.T, program string) {
	pausedEverywhere(t, program, "read committed", func(s *scene) {
		require.NoError(s.t, s.app.Pause())
		time.Sleep(lease + lease/4)
		require.NoError(s.t, s.app.Continue())
		s.fault.Release(true)
		late := <-s.answers
		require.NoError(s.t, late.err)
		if s.at.Event == len(s.statements)-1 { // all is done but the record of it
			require.Equal(s.t, http.StatusCreated, late.Status, late.Body)
		}
		final := s.app.persist(s.command)
		s.check(final)
		if late.Status == http.StatusCreated {
			require.Equal(s.t, final.Body, late.Body)
		}
	})
}

func refund(amount string) string { return `{"amount":"` + amount + `"}` }

// pay makes a payment of 10.00 of the customer, and returns the path of its refunds.
func (a *app) pay(key string) (refunds string) {
	a.t.Helper()
	paid := a.post(customer, "/v1/payments", key, payment("10.00", "pm_ok"))
	require.Equal(a.t, http.StatusCreated, paid.Status, paid.Body)
	return paid.Header.Get("Location") + "/refunds"
}

// checkRefunded asserts that refunds of the given amounts, and no others, were booked and made by the provider: one
// entry each for each operation.
func (a *app) checkRefunded(amounts ...string) {
	a.t.Helper()
	booked, charged := map[string]string{}, map[string]string{}
	var list []string
	for _, line := range a.ledger("refund") {
		require.NotContains(a.t, booked, line.Operation)
		booked[line.Operation] = line.Amount
		list = append(list, line.Amount)
	}
	for _, line := range a.ledger("provider") {
		require.NotContains(a.t, charged, line.Operation)
		charged[line.Operation] = line.Amount
	}
	require.ElementsMatch(a.t, amounts, list)
	require.Equal(a.t, booked, charged)
}
