package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/auth19/idem/core/internal/command"
	"github.com/auth19/idem/core/store"
)

// Resumer does the work of a Resume route's handler without a request. It takes the same steps, and returns the answer.
// It reads the command's data from the app's own rows, which have the operation id (D-1), or from the results of its
// steps. If it panics, or returns an error, a nil answer, a 5xx or a status that is none, Run tries the operation again
// later. Its context ends with the deadline of the operation's route. If it hangs, only its own operation is blocked.
//
// Run looks for such operations every Config.SweepEvery, and keeps to the pauses of Policy.ResumePause, as repeats do. After
// Policy.ResumeFor, or Policy.MaxAttempts attempts, it parks the operation.
type Resumer func(ctx context.Context, operation Record) (*Answer, error)

// resume continues Resume operations whose attempt was lost, one after the other (X). It takes each operation over with a
// higher fence, as a repeat does. If several instances and repeats try this at once, one of them wins. An operation that
// has used up its attempts or its time is parked, unless its route is unknown. The operations of a newer release,
// whose commands this one cannot compare, are left to it: their steps may be others (H-4).
func (m *Module) resume(ctx context.Context) {
	if _, ok := m.cfg.Store.(store.Attempts); !ok {
		return
	}
	q := store.Query{Resumable: true, Within: m.service, Limit: m.cfg.SweepBatch}
	strangers, newer := map[stranger]int{}, 0
	defer func() {
		m.tellStrangers(ctx, strangers)
		if newer > 0 {
			m.failed(ctx, fmt.Errorf("resume: %d operations wait for a newer instance: %w", newer, command.ErrUnknownVersion))
		}
	}()
	for ctx.Err() == nil {
		lost, err := m.operations.List(ctx, q)
		if err != nil {
			m.failed(ctx, err)
			return
		}
		for _, rec := range lost {
			q.After = rec.Cursor()
			if ctx.Err() != nil {
				return
			}
			policy, known := m.policyOf(rec.Method, rec.Route)
			if !known {
				if rec.HalfDone() {
					strangers[strangerOf(rec)]++
				}
				continue
			}
			if !command.Known(rec.Hash.Version) {
				newer++
				continue
			}
			limit := policy.Deadline + confirmFor
			m.pulses.resume.within(limit)
			if err := m.resuming.runAlone(rec.ID, limit, func() error { return m.resumeOne(ctx, rec, policy) }); err != nil {
				m.failed(ctx, fmt.Errorf("resume %s: %w", rec.ID, err))
			}
		}
		if len(lost) < m.cfg.SweepBatch {
			return
		}
	}
}

func (m *Module) resumeOne(ctx context.Context, rec Record, policy Policy) error {
	spent, resume := policy.isSpent(&rec), m.resumerOf(rec.Method, rec.Route)
	if !spent && (resume == nil || rec.Now.Before(rec.NextAttempt(policy.ResumePause))) {
		return nil // only a repeat continues it, or its pause is not over; or its route has another recovery now
	}
	if policy.Recovery = Resume; spent {
		policy.ResumePause = 0 // it is parked, and not tried again
	}
	r, err := http.NewRequestWithContext(ctx, rec.Method, "/", http.NoBody)
	if err != nil {
		return err
	}
	q := &request{Context: ctx, route: &route{Policy: policy}, pattern: rec.Route, id: rec.ID, hash: rec.Hash,
		command: command.Command{Method: rec.Method}}
	again := q.event(EventResumed)
	again.Traceparent = rec.Traceparent
	traced := traceStart(ctx, m.tracer, again)
	var attempt *Attempt
	defer func() {
		if attempt == nil {
			traceEnd(traced, m.tracer)
		}
	}()
	attempt, err = m.takeOver(r.WithContext(traced), q, rec)
	switch {
	case attempt == nil:
		return err
	case spent || attempt.isOneTooMany():
		attempt.giveUp()
		traceEnd(traced, m.tracer)
		return nil
	}
	if _, err := attempt.readSteps(); err != nil {
		traceEnd(traced, m.tracer)
		return err
	}
	attempt.observe(Event{Kind: EventResumed, Traceparent: rec.Traceparent})
	return attempt.runResumer(resume, rec)
}

// resumerOf returns the function that goes on with the operations of a route, also under a former pattern; nil without one.
func (m *Module) resumerOf(method, pattern string) Resumer {
	if r := m.former[routeKey{method, pattern}]; r != nil {
		pattern = r.pattern
	}
	return m.cfg.Resume[method+" "+pattern]
}

// stranger is a route that this release does not know: another service's, or one that has changed its pattern.
type stranger struct {
	routeKey
	recovery Recovery
}

func strangerOf(rec Record) stranger { return stranger{routeKey{rec.Method, rec.Route}, rec.Recovery} }

// strangersEvery is how often the operations of a stranger are an event, at most.
const strangersEvery = time.Hour

// tellStrangers sends the events of operations that nobody goes on with here.
func (m *Module) tellStrangers(ctx context.Context, strangers map[stranger]int) {
	for s, n := range strangers {
		now := time.Now()
		if last, told := m.strangers.Load(s); told && now.Sub(last.(time.Time)) < strangersEvery {
			continue
		}
		m.strangers.Store(s, now)
		m.observe(ctx, Event{Kind: EventRouteUnknown, Method: s.method, Route: s.pattern, Recovery: s.recovery, Count: n})
	}
}

// takeOver claims the record as a repeat of its command does. It returns neither an attempt nor an error if another claim
// was quicker.
func (m *Module) takeOver(r *http.Request, q *request, rec Record) (*Attempt, error) {
	claim := store.Claim{
		ID: rec.ID, Owner: m.newOwner(), Scope: rec.Scope, Realm: rec.Realm, Method: rec.Method, Route: rec.Route,
		Recovery: Resume, Hash: rec.Hash, Lease: q.route.Lease, Deadline: q.route.Deadline,
		Traceparent: traceparent(r.Context(), m.tracer),
		Pause:       q.route.ResumePause,
	}
	// If the key was freed in between, this claim must not win: the client was told that nothing was applied.
	claim.Key = store.KeyTime{Made: time.UnixMilli(0), Timed: rec.Timed, Valid: never}
	q.values = context.WithoutCancel(r.Context())
	claimedAt := time.Now()
	tx, claimed, err := m.claim(q.call.until(q.values, claimedAt.Add(m.cfg.ClaimTimeout)), &claim)
	q.claiming = time.Since(claimedAt)
	if err != nil || !claimed.Won {
		return nil, err
	}
	return m.newAttempt(r, q, &claimed.Record, tx, claimedAt), nil
}

// runResumer runs the app's function as the attempt's handler. Its answer is not sent; it is recorded for repeats.
func (a *Attempt) runResumer(resume Resumer, rec Record) error {
	c := a.Capture(discardWriter{})
	var answer *Answer
	err := recovered(func() (err error) {
		answer, err = resume(a.request.Context(), rec)
		switch {
		case err != nil:
			return err
		case answer == nil:
			return errors.New("neither an answer nor an error")
		case answer.Status < 200 || answer.Status > 599: // as 5xx, the attempt has failed
			return fmt.Errorf("Answer.Status: %d is not 200 to 599", answer.Status)
		}
		return nil
	})
	if err != nil {
		c.WriteHeader(http.StatusInternalServerError)
		a.Finish()
		return err
	}
	for name, values := range answer.Header {
		c.Header()[http.CanonicalHeaderKey(name)] = values
	}
	c.WriteHeader(answer.Status)
	_, _ = c.Write(answer.Body) // an answer above the cap is recorded without its body
	a.Finish()
	return nil
}

// discardWriter is the writer of an attempt without a client.
type discardWriter struct{}

func (discardWriter) Header() http.Header         { return http.Header{} }
func (discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (discardWriter) WriteHeader(int)             {}
