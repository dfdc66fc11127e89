package storetest_test

import (
	"context"
	"sync/atomic"

	"github.com/auth19/idem/core/store"
)

// The mutants of a store.Operations.
var openMutants = map[string]mutantOf[store.Operations, store.Operations]{
	"counts what has ended":  {"Open/States", func(c store.Operations) store.Operations { return &countsClaims{Operations: c} }},
	"counts without a limit": {"Open/Limit", func(c store.Operations) store.Operations { return unlimited{c} }},
	"forgets the parked":     {"Open/States", func(c store.Operations) store.Operations { return &forgetsTheParked{Operations: c} }},
	"counts for all":         {"Open/Apart", func(c store.Operations) store.Operations { return &countsForAll{Operations: c} }},
	"counts regardless":      {"Open/Cancelled", func(c store.Operations) store.Operations { return heedlessCount{c} }},
}

// countsClaims counts the claims that were won.
type countsClaims struct {
	store.Operations
	won atomic.Int64
}

func (c *countsClaims) Claim(ctx context.Context, claim store.Claim) (store.Claimed, error) {
	got, err := c.Operations.Claim(ctx, claim)
	if got.Won {
		c.won.Add(1)
	}
	return got, err
}

func (c *countsClaims) CountOpen(context.Context, store.Scope, int) (int, error) {
	return int(c.won.Load()), nil
}

type unlimited struct{ store.Operations }

func (c unlimited) CountOpen(ctx context.Context, s store.Scope, _ int) (int, error) {
	return c.Operations.CountOpen(ctx, s, 1000)
}

// countsForAll counts the open records of all principals for each of them.
type countsForAll struct {
	store.Operations
	scopes []store.Scope
}

func (c *countsForAll) Claim(ctx context.Context, claim store.Claim) (store.Claimed, error) {
	c.scopes = append(c.scopes, claim.Scope)
	return c.Operations.Claim(ctx, claim)
}

func (c *countsForAll) CountOpen(ctx context.Context, _ store.Scope, limit int) (n int, err error) {
	for _, scope := range c.scopes {
		open, err := c.Operations.CountOpen(ctx, scope, limit)
		if err != nil {
			return 0, err
		}
		n += open
	}
	return n, nil
}

type heedlessCount struct{ store.Operations }

func (c heedlessCount) CountOpen(ctx context.Context, s store.Scope, limit int) (int, error) {
	return c.Operations.CountOpen(context.WithoutCancel(ctx), s, limit)
}
