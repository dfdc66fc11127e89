package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// Resumer does the work of a Resume route's handler without a request: it takes the same steps, and returns the answer. It
// reads what it needs of the command from the app's own rows, which carry the operation id (D-1), or from the results of
// its steps. If it returns an error or a nil answer, or panics, Run tries the operation again later; return an error for
// the operation of a route that it does not know. Its context ends with the deadline of the operation's route. If it
// hangs, only its own operation waits.
//
// After a failed attempt Run pauses for Config.SweepEvery, and twice as long after each further one, up to 4 h. After
// Policy.MaxAttempts attempts or Policy.ResumeFor it parks the operation.
type Resumer func(ctx context.Context, operation Record) (*Answer, error)

// resume goes on with Resume operations whose attempt was lost, one after the other (X). It takes each over with a
// higher fence, as a repeat does, so that any number of instances and repeats may do so at once: one wins. One that has
// had its attempts, or its time, is parked.
func (m *Module) resume(ctx context.Context) {
	store, ok := m.cfg.Store.(Stepper)
	if !ok {
		return
	}
	var after ID
	for ctx.Err() == nil {
		lost, err := store.Resumable(ctx, m.service, after, m.cfg.SweepBatch)
		if err != nil {
			if !errors.Is(err, ErrNotFound) { // the page's last record has ended and gone: the rest is for the next time
				m.failed(ctx, err)
			}
			return
		}
		for _, rec := range lost {
			after = rec.ID
			if ctx.Err() != nil {
				return
			}
			limit := m.policyOf(rec).Deadline + confirmFor
			if err := m.resuming.run(rec.ID, limit, func() error { return m.resumeOne(ctx, rec) }); err != nil {
				m.failed(ctx, fmt.Errorf("resume %s: %w", rec.ID, err))
			}
		}
		if len(lost) < m.cfg.SweepBatch {
			return
		}
	}
}

func (m *Module) resumeOne(ctx context.Context, rec Record) error {
	policy := m.policyOf(rec)
	spent := policy.isSpent(&rec)
	if !spent && (m.cfg.Resume == nil || policy.Recovery != Resume || !m.isDue(rec)) {
		return nil // it waits for a repeat, or for its time; the route may have another recovery by now, or be gone
	}
	policy.Recovery = Resume
	r, err := http.NewRequestWithContext(ctx, rec.Method, "/", http.NoBody)
	if err != nil {
		return err
	}
	adm := &admission{Context: ctx, route: &route{Policy: policy}, pattern: rec.Route, id: rec.ID, hash: rec.Hash,
		command: command{method: rec.Method}}
	again := adm.event(EventResumed)
	again.Traceparent = rec.Traceparent
	traced := traceStart(ctx, m.tracer, again)
	var attempt *Attempt
	defer func() {
		if attempt == nil {
			traceEnd(traced, m.tracer)
		}
	}()
	attempt, err = m.takeOver(r.WithContext(traced), adm, rec)
	switch {
	case attempt == nil:
		return err
	case spent || attempt.isOneTooMany():
		attempt.giveUp()
		traceEnd(traced, m.tracer)
		return nil
	}
	attempt.observe(Event{Kind: EventResumed, Traceparent: rec.Traceparent})
	return attempt.runResumer(m.cfg.Resume, rec)
}

// maxPause is the longest pause between two attempts of a resumer.
const maxPause = 4 * time.Hour

// isDue reports whether the pause is over that follows the last attempt of an operation. There is none after the first
// attempt; then it is SweepEvery, and twice as long each time, give or take a fifth. The row says when the last attempt
// ended and how many there were, so that it holds for all instances together, and over their restarts.
func (m *Module) isDue(rec Record) bool {
	if rec.Attempts < 2 {
		return true
	}
	pause := m.cfg.SweepEvery
	for n := 2; n < rec.Attempts && pause < maxPause; n++ {
		pause *= 2
	}
	pause = min(pause, maxPause)
	return !rec.Now.Before(rec.LeaseUntil.Add(pause - pause/5 + rand.N(pause/5*2+1)))
}

// takeOver claims the record as a repeat of its command does. A nil attempt without an error: somebody was quicker.
func (m *Module) takeOver(r *http.Request, adm *admission, rec Record) (*Attempt, error) {
	claim := Claim{
		ID: rec.ID, Owner: newOwner(), Scope: rec.Scope, Realm: rec.Realm, Method: rec.Method, Route: rec.Route,
		Recovery: Resume, Hash: rec.Hash, Lease: adm.route.Lease, Deadline: adm.route.Deadline,
		Retention: adm.route.Retention, Counted: m.countsOpen, Traceparent: traceparent(r.Context(), m.tracer),
	}
	// If it was freed in between, its key is left to its client: the client was told that nothing was applied.
	claim.Key = KeyTime{Made: time.UnixMilli(0), Timed: rec.Timed, Valid: never}
	adm.values = context.WithoutCancel(r.Context())
	claimedAt := time.Now()
	won, claimed, err := m.claim(adm.call.until(adm.values, claimedAt.Add(m.cfg.ClaimTimeout)), &claim)
	adm.claiming = time.Since(claimedAt)
	if err != nil || !claimed.Won {
		return nil, err
	}
	return m.newAttempt(r, adm, &claimed.Record, won, claimedAt), nil
}

// runResumer runs the app's function as the attempt's handler. Nobody reads its answer now: it is for the repeats.
func (a *Attempt) runResumer(resume Resumer, rec Record) error {
	c := a.Capture(nowhere{})
	var answer *Answer
	err := calm(func() (err error) {
		if answer, err = resume(a.request.Context(), rec); err == nil && answer == nil {
			err = errors.New("neither an answer nor an error")
		}
		return err
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
	_, _ = c.Write(answer.Body) // one that is above the cap is recorded as such
	a.Finish()
	return nil
}

// nowhere is the client of a resumer.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}
