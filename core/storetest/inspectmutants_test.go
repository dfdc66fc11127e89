package storetest_test

import (
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// inspectMutants are stores with one fault in what operators look through: see mutants.
var inspectMutants = map[string]mutantOf[store.Operations, store.Store]{
	"shows every route":       {"List/Filters", func(s store.Operations) store.Store { return showsEveryRoute{s} }},
	"ends a moment too late":  {"List/Filters", func(s store.Operations) store.Store { return endsLate{s} }},
	"shows every principal":   {"List/Filters", func(s store.Operations) store.Store { return showsEveryPrincipal{s} }},
	"never the newest first":  {"List/Pages", func(s store.Operations) store.Store { return neverNewest{s} }},
	"near in every realm":     {"Inspect/Near", func(s store.Operations) store.Store { return nearEverywhere{s} }},
	"settled in every realm":  {"Inspect/LastSettled", func(s store.Operations) store.Store { return settledEverywhere{s} }},
	"answers of every realm":  {"Inspect/LastAnswered", func(s store.Operations) store.Store { return answeredEverywhere{s} }},
	"opens every realm":       {"Inspect/OpenSteps", func(s store.Operations) store.Store { return opensEverywhere{s} }},
	"pages by age alone":      {"List/Pages", func(s store.Operations) store.Store { return repeatsTheLast{s} }},
	"loses what was undone":   {"Inspect/History", func(s store.Operations) store.Store { return losesUndone{s} }},
	"tells the newest first":  {"Inspect/History", func(s store.Operations) store.Store { return newestHistory{s} }},
	"looks after a cancelled": {"Inspect/Cancelled", func(s store.Operations) store.Store { return looksAnyway{s} }},
}

type showsEveryRoute struct{ store.Operations }

func (s showsEveryRoute) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	q.Route = ""
	return s.Operations.List(ctx, q)
}

type showsEveryPrincipal struct{ store.Operations }

func (s showsEveryPrincipal) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	q.Scope = store.Scope{}
	return s.Operations.List(ctx, q)
}

type neverNewest struct{ store.Operations }

func (s neverNewest) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	q.Newest = false
	return s.Operations.List(ctx, q)
}

type nearEverywhere struct{ store.Operations }

func (s nearEverywhere) Near(ctx context.Context, _ []byte, n store.Near, limit int) ([]store.ID, error) {
	return s.Operations.Near(ctx, nil, n, limit)
}

type opensEverywhere struct{ store.Operations }

func (s opensEverywhere) OpenSteps(ctx context.Context, _ []byte, limit int) ([]store.OpenStep, error) {
	return s.Operations.OpenSteps(ctx, nil, limit)
}

type settledEverywhere struct{ store.Operations }

func (s settledEverywhere) LastSettled(ctx context.Context, _ []byte, by string, limit int) ([]store.SettledOperation, error) {
	return s.Operations.LastSettled(ctx, nil, by, limit)
}

type answeredEverywhere struct{ store.Operations }

func (s answeredEverywhere) LastAnswered(ctx context.Context, _ []byte, method, route string) (store.Record, error) {
	return s.Operations.LastAnswered(ctx, nil, method, route)
}

type endsLate struct{ store.Operations }

func (s endsLate) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	if !q.Until.IsZero() {
		q.Until = q.Until.Add(time.Second)
	}
	return s.Operations.List(ctx, q)
}

type repeatsTheLast struct{ store.Operations }

func (s repeatsTheLast) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	q.After.ID = store.ID{}
	return s.Operations.List(ctx, q)
}

type losesUndone struct{ store.Operations }

func (s losesUndone) History(ctx context.Context, id store.ID) ([]store.SettlementRecord, error) {
	history, err := s.Operations.History(ctx, id)
	for i := range history {
		history[i].Undone = ""
	}
	return history, err
}

type newestHistory struct{ store.Operations }

func (s newestHistory) History(ctx context.Context, id store.ID) ([]store.SettlementRecord, error) {
	history, err := s.Operations.History(ctx, id)
	slices.Reverse(history)
	return history, err
}

type looksAnyway struct{ store.Operations }

func (s looksAnyway) History(ctx context.Context, id store.ID) ([]store.SettlementRecord, error) {
	return s.Operations.History(context.WithoutCancel(ctx), id)
}
