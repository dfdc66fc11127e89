package smoketest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
)

// victim is a command to which something happens between two of its statements.
type victim struct {
	name    string
	prepare func(a *app) apptest.Request
	check   func(a *app, answer apptest.Response) // what there is after it was answered
}

var (
	refundVictim = victim{
		name: "refund",
		prepare: func(a *app) apptest.Request {
			return post(a, customer, a.pay("pay", "10.00"), "refund", refund("4.00", ""))
		},
		check: checkRefundOnce,
	}
	paymentVictim = victim{
		name: "payment",
		prepare: func(a *app) apptest.Request {
			a.pay("before", "1.00")
			return post(a, customer, "/v1/payments", "pay", payment("10.00", "pm_ok"))
		},
		check: func(a *app, answer apptest.Response) {
			require.Equal(a.t, http.StatusCreated, answer.Status, answer.Body)
			require.Len(a.t, a.ledger("payment"), 2)
		},
	}
	payoutVictim = victim{
		name: "payout",
		prepare: func(a *app) apptest.Request {
			return post(a, seller, "/v1/payouts", "payout", payout("7.00", "pm_ok"))
		},
		check: checkPayoutAtMostOnce,
	}
)

// checkRefundOnce asserts that 4.00 of a payment of 10.00 are refunded, everywhere.
func checkRefundOnce(a *app, answer apptest.Response) {
	a.t.Helper()
	require.Equal(a.t, http.StatusCreated, answer.Status, answer.Body)
	a.checkRefunded("4.00")
	var payments []struct{ ID string }
	a.get(customer, "/v1/payments").Decode(a.t, &payments)
	require.Len(a.t, payments, 1)
	path := "/v1/payments/" + payments[0].ID + "/refunds"
	tooHigh := a.post(customer, path, "more", refund("6.01", ""))
	a.checkProblem(tooHigh, http.StatusConflict, "refund_exceeds_payment")
}

// checkPayoutAtMostOnce asserts that a payout is made and booked once, or that its outcome is unknown, and it was made
// at most once.
func checkPayoutAtMostOnce(a *app, answer apptest.Response) {
	a.t.Helper()
	if answer.Status == http.StatusCreated {
		require.Len(a.t, a.ledger("provider"), 1)
		require.Len(a.t, a.ledger("payout"), 1)
		require.Empty(a.t, a.operations())
		return
	}
	a.checkProblem(answer, http.StatusConflict, "outcome_unknown")
	require.LessOrEqual(a.t, len(a.ledger("provider")), 1)
	require.LessOrEqual(a.t, len(a.ledger("payout")), len(a.ledger("provider")))
	require.Len(a.t, a.operations(), 1)
}

// lease is short, so that a takeover comes soon.
const lease = time.Second

// onWire starts an app whose statements go over a wire, at rest before its victim's first statement.
func (v victim) onWire(t *testing.T, program, database string) (a *app, wire *apptest.Wire, command apptest.Request) {
	wire = apptest.NewWire(t, database)
	a = newApp(t, program, wire.URL, "10s")
	command = v.prepare(a)
	wire.Await(t, func(seen []string) bool { // the sweep at the start is over: this is its last statement
		return slices.ContainsFunc(seen, func(statement string) bool {
			return strings.HasPrefix(statement, "DELETE FROM idempotency_sighting")
		})
	})
	return a, wire, command
}

// newApp starts an app on a PostgreSQL database.
func newApp(t *testing.T, program, database, deadline string) *app {
	a := &app{t: t, program: program, dir: t.TempDir(), env: []string{
		"DATABASE_URL=" + database, "LEASE=" + lease.String(), "DEADLINE=" + deadline,
	}}
	a.start()
	return a
}

// scene is an app that has come to a point of its command.
type scene struct {
	*app
	other      *app // another instance on the same database
	command    apptest.Request
	statements []string // of the whole command
	at         apptest.Point
	fault      *apptest.Fault
	answers    <-chan answer // what the command is answered, if it is
}

// everywhere runs a test for every point of a victim: before each of its statements, and after it where that is asked
// for. Several run at a time, because most of their time is waiting for a lease.
func (v victim) everywhere(t *testing.T, program, isolation string, after []bool, test func(s scene)) {
	fresh := func(t *testing.T) string {
		database, err := url.Parse(pgtest.URL(t))
		require.NoError(t, err)
		query := database.Query()
		query.Set("default_transaction_isolation", isolation)
		database.RawQuery = query.Encode()
		return database.String()
	}
	a, wire, command := v.onWire(t, program, fresh(t))
	wire.Count()
	answer := a.Do(t, command)
	require.Equal(t, http.StatusCreated, answer.Status, answer.Body)
	statements := wire.Seen()
	require.NotEmpty(t, statements)

	points := make(chan apptest.Point)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for at := range points {
				t.Run(at.String(), func(t *testing.T) {
					s := scene{statements: statements, at: at}
					database := fresh(t)
					var wire *apptest.Wire
					s.app, wire, s.command = v.onWire(t, program, database)
					s.other = newApp(t, program, database, "2s")
					s.reach(wire)
					test(s)
				})
			}
		})
	}
	for i := range statements {
		for _, after := range after {
			points <- apptest.Point{Statement: i, After: after}
		}
	}
	close(points)
	workers.Wait()
}

// reach sends the command and waits until it has come to the point.
func (s *scene) reach(wire *apptest.Wire) {
	s.t.Helper()
	s.fault = wire.Strike(s.at)
	process, ctx, answers := s.Process, s.t.Context(), make(chan answer, 1)
	go func() {
		response, err := process.Try(ctx, s.command)
		answers <- answer{response, err}
	}()
	select {
	case <-s.fault.Reached:
	case early := <-answers:
		require.Fail(s.t, "answered before the fault", "%+v", early)
	}
	require.Equal(s.t, s.statements[:s.at.Statement+1], wire.Seen(), "the statements are those of a run without a fault")
	s.answers = answers
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

// killedEverywhere kills the app between every two statements of its commands. After the repeats, at another instance,
// there is one charge, one entry and one answer.
//
// CONTRACT, F-2
func killedEverywhere(t *testing.T, program string) {
	for _, v := range []victim{refundVictim, paymentVictim, payoutVictim} {
		t.Run(v.name, func(t *testing.T) {
			v.everywhere(t, program, "read committed", []bool{false, true}, func(s scene) {
				s.Kill(s.t)
				s.fault.Release(false)
				require.Error(s.t, (<-s.answers).err)

				v.check(s.other, s.other.persist(s.command))
			})
		})
	}
}

// overtaken pauses the app between every two statements of a refund, for longer than its lease, and lets another
// instance go on. What wakes up then changes nothing any more.
//
// CONTRACT X-2
func overtaken(t *testing.T, program string) {
	v := refundVictim
	for _, isolation := range []string{"read committed", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			v.everywhere(t, program, isolation, []bool{false}, func(s scene) {
				require.NoError(s.t, s.Pause())
				overtook := s.other.overtake(s.command)
				if !holdsLocks(s.statements[:s.at.Statement]) {
					v.check(s.other, overtook)
				}

				require.NoError(s.t, s.Continue())
				s.fault.Release(true)
				late := <-s.answers
				require.NoError(s.t, late.err)
				final := s.other.persist(s.command)
				v.check(s.other, final)
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
	for deadline := time.Now().Add(3 * lease); time.Now().Before(deadline); time.Sleep(lease / 20) {
		if last = a.Do(a.t, command); last.Status < 300 {
			break
		}
	}
	return last
}

// wakesUnsettled pauses the app between every two statements of a refund, for longer than its lease, while nobody
// repeats: it may still complete, and what it leaves is completed by a repeat.
//
// CONTRACT X-2
func wakesUnsettled(t *testing.T, program string) {
	v := refundVictim
	v.everywhere(t, program, "read committed", []bool{false}, func(s scene) {
		require.NoError(s.t, s.Pause())
		time.Sleep(lease + lease/4)
		require.NoError(s.t, s.Continue())
		s.fault.Release(true)
		late := <-s.answers
		require.NoError(s.t, late.err)
		if s.at.Statement == len(s.statements)-1 { // all is done but the record of it
			require.Equal(s.t, http.StatusCreated, late.Status, late.Body)
		}
		final := s.persist(s.command)
		v.check(s.app, final)
		if late.Status == http.StatusCreated {
			require.Equal(s.t, final.Body, late.Body)
		}
	})
}
