package storetest_test

import (
	"context"
	"sync/atomic"

	"github.com/auth19/idem/core/store"
)

// The mutants of a store.Counter.
var openMutants = map[string]mutantOf[store.Counter, store.Counter]{
	"counts what has ended":  {"Open/States", func(c store.Counter) store.Counter { return &countsClaims{Counter: c} }},
	"counts without a limit": {"Open/Limit", func(c store.Counter) store.Counter { return unlimited{c} }},
	"forgets the parked":     {"Open/States", func(c store.Counter) store.Counter { return &forgetsTheParked{Counter: c} }},
	"counts for all":         {"Open/Apart", func(c store.Counter) store.Counter { return &countsForAll{Counter: c} }},
	"counts regardless":      {"Open/Cancelled", func(c store.Counter) store.Counter { return heedlessCount{c} }},
}

// countsClaims counts the claims that were won.
type countsClaims struct {
	store.Counter
	won atomic.Int64
}

func (c *countsClaims) Claim(ctx context.Context, claim store.Claim) (store.Claimed, error) {
	got, err := c.Counter.Claim(ctx, claim)
	if got.Won {
		c.won.Add(1)
	}
	return got, err
}

func (c *countsClaims) CountOpen(context.Context, store.Scope, int) (int, error) {
	return int(c.won.Load()), nil
}

type unlimited struct{ store.Counter }

func (c unlimited) CountOpen(ctx context.Context, s store.Scope, _ int) (int, error) {
	return c.Counter.CountOpen(ctx, s, 1000)
}

// countsForAll counts the open records of all principals for each of them.
type countsForAll struct {
	store.Counter
	scopes []store.Scope
}

func (c *countsForAll) Claim(ctx context.Context, claim store.Claim) (store.Claimed, error) {
	c.scopes = append(c.scopes, claim.Scope)
	return c.Counter.Claim(ctx, claim)
}

func (c *countsForAll) CountOpen(ctx context.Context, _ store.Scope, limit int) (n int, err error) {
	for _, scope := range c.scopes {
		open, err := c.Counter.CountOpen(ctx, scope, limit)
		if err != nil {
			return 0, err
		}
		n += open
	}
	return n, nil
}

type heedlessCount struct{ store.Counter }

func (c heedlessCount) CountOpen(ctx context.Context, s store.Scope, limit int) (int, error) {
	return c.Counter.CountOpen(context.WithoutCancel(ctx), s, limit)
}
