package core

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync/atomic"

	"github.com/auth19/idem/core/store"
)

// knownAges are the ages that the store has returned, by method and pattern.
type knownAges struct {
	atomic.Pointer[map[routeKey]store.AgeLimit]
}

// limitOf returns the age limit of a route; ok is false if the store was not asked for it yet.
func (k *knownAges) limitOf(name routeKey) (limit store.AgeLimit, ok bool) {
	if known := k.Load(); known != nil {
		limit, ok = (*known)[name]
	}
	return limit, ok
}

// add is called by one goroutine at a time.
func (k *knownAges) add(name routeKey, limit store.AgeLimit) {
	all := map[routeKey]store.AgeLimit{name: limit}
	if known := k.Load(); known != nil {
		maps.Copy(all, *known)
	}
	k.Store(&all)
}

// knownAge returns the age of the request's route. The module asks the store once for each route.
func (m *Module) knownAge(ctx context.Context, st store.Settings, q *request) (store.AgeLimit, error) {
	name := routeKey{q.command.Method, q.pattern}
	if limit, ok := m.ages.limitOf(name); ok {
		return limit, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.ClaimTimeout)
	defer cancel()
	select { // one asks, as in CheckScoping
	case m.asking <- struct{}{}:
		defer func() { <-m.asking }()
	case <-ctx.Done():
		return store.AgeLimit{}, ctx.Err()
	}
	if limit, ok := m.ages.limitOf(name); ok {
		return limit, nil
	}
	age := q.route.KeyAge
	if !q.route.timed() {
		age = 0
	}
	limit, err := st.KeepAge(ctx, m.service, name.method+" "+name.pattern, age, m.window())
	if err == nil {
		m.ages.add(name, limit)
	}
	return limit, err
}

// takeAge is a gate. It finds out whether the key of a request is too old. A route that has left TimedKey still refuses keys
// that were too old at that time.
func (m *Module) takeAge(r *http.Request, q *request) *Problem {
	st, ok := m.cfg.Store.(store.Settings) // New has refused any other store of timed keys
	if !ok || q.keyMade.IsZero() {
		return nil
	}
	limit, err := m.knownAge(r.Context(), st, q)
	switch {
	case errors.Is(err, ErrClock):
		m.tellClock(r.Context(), err)
		q.unaged = true
	case err != nil:
		m.claimFailed(r, q, err)
		return m.unavailable(err)
	case q.route.timed():
		q.keyAge = limit.Of(q.keyMade)
	default:
		q.tooOld = !q.keyMade.After(limit.Floor())
	}
	return nil
}
