package storetest_test

import (
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// inspectMutants are stores with one fault in what operators look through: see mutants.
var inspectMutants = map[string]mutantOf[store.Inspectable, store.Store]{
	"shows every realm":         {"Inspect/Within", func(s store.Inspectable) store.Store { return showsEveryRealm{s} }},
	"forgets the half-done":     {"Inspect/Unsettled", func(s store.Inspectable) store.Store { return forgetsHalfDone{s} }},
	"shows every route":         {"Inspect/Filters", func(s store.Inspectable) store.Store { return showsEveryRoute{s} }},
	"ends a moment too late":    {"Inspect/Filters", func(s store.Inspectable) store.Store { return endsLate{s} }},
	"shows every principal":     {"Inspect/Filters", func(s store.Inspectable) store.Store { return showsEveryPrincipal{s} }},
	"never the newest first":    {"Inspect/Pages", func(s store.Inspectable) store.Store { return neverNewest{s} }},
	"near in every realm":       {"Inspect/Near", func(s store.Inspectable) store.Store { return nearEverywhere{s} }},
	"settled in every realm":    {"Inspect/LastSettled", func(s store.Inspectable) store.Store { return settledEverywhere{s} }},
	"answers of every realm":    {"Inspect/LastAnswered", func(s store.Inspectable) store.Store { return answeredEverywhere{s} }},
	"opens every realm":         {"Inspect/OpenSteps", func(s store.Inspectable) store.Store { return opensEverywhere{s} }},
	"pages by age alone":        {"Inspect/Pages", func(s store.Inspectable) store.Store { return repeatsTheLast{s} }},
	"counts all that there are": {"Inspect/Counts", func(s store.Inspectable) store.Store { return countsEverything{s} }},
	"loses what was undone":     {"Inspect/History", func(s store.Inspectable) store.Store { return losesUndone{s} }},
	"tells the newest first":    {"Inspect/History", func(s store.Inspectable) store.Store { return newestHistory{s} }},
	"looks after a cancelled":   {"Inspect/Cancelled", func(s store.Inspectable) store.Store { return looksAnyway{s} }},
}

type showsEveryRealm struct{ store.Inspectable }

func (s showsEveryRealm) Unsettled(ctx context.Context, q store.UnsettledQuery) ([]store.Record, error) {
	q.Within = nil
	return s.Inspectable.Unsettled(ctx, q)
}

type forgetsHalfDone struct{ store.Inspectable }

func (s forgetsHalfDone) CountUnsettled(ctx context.Context, q store.UnsettledQuery) ([]store.UnsettledCount, error) {
	counts, err := s.Inspectable.CountUnsettled(ctx, q)
	return slices.DeleteFunc(counts, func(c store.UnsettledCount) bool { return c.HalfDone }), err
}

type showsEveryRoute struct{ store.Inspectable }

func (s showsEveryRoute) Unsettled(ctx context.Context, q store.UnsettledQuery) ([]store.Record, error) {
	q.Route = ""
	return s.Inspectable.Unsettled(ctx, q)
}

type showsEveryPrincipal struct{ store.Inspectable }

func (s showsEveryPrincipal) Unsettled(ctx context.Context, q store.UnsettledQuery) ([]store.Record, error) {
	q.Scope = store.Scope{}
	return s.Inspectable.Unsettled(ctx, q)
}

type neverNewest struct{ store.Inspectable }

func (s neverNewest) Unsettled(ctx context.Context, q store.UnsettledQuery) ([]store.Record, error) {
	q.Newest = false
	return s.Inspectable.Unsettled(ctx, q)
}

type nearEverywhere struct{ store.Inspectable }

func (s nearEverywhere) Near(ctx context.Context, _ []byte, n store.Near, limit int) ([]store.ID, error) {
	return s.Inspectable.Near(ctx, nil, n, limit)
}

type opensEverywhere struct{ store.Inspectable }

func (s opensEverywhere) OpenSteps(ctx context.Context, _ []byte, limit int) ([]store.OpenStep, error) {
	return s.Inspectable.OpenSteps(ctx, nil, limit)
}

type settledEverywhere struct{ store.Inspectable }

func (s settledEverywhere) LastSettled(ctx context.Context, _ []byte, by string, limit int) ([]store.SettledOperation, error) {
	return s.Inspectable.LastSettled(ctx, nil, by, limit)
}

type answeredEverywhere struct{ store.Inspectable }

func (s answeredEverywhere) LastAnswered(ctx context.Context, _ []byte, method, route string) (store.Record, error) {
	return s.Inspectable.LastAnswered(ctx, nil, method, route)
}

type endsLate struct{ store.Inspectable }

func (s endsLate) Unsettled(ctx context.Context, q store.UnsettledQuery) ([]store.Record, error) {
	if !q.Until.IsZero() {
		q.Until = q.Until.Add(time.Second)
	}
	return s.Inspectable.Unsettled(ctx, q)
}

type repeatsTheLast struct{ store.Inspectable }

func (s repeatsTheLast) Unsettled(ctx context.Context, q store.UnsettledQuery) ([]store.Record, error) {
	q.After.ID = store.ID{}
	return s.Inspectable.Unsettled(ctx, q)
}

type countsEverything struct{ store.Inspectable }

func (s countsEverything) CountUnsettled(ctx context.Context, q store.UnsettledQuery) ([]store.UnsettledCount, error) {
	q.Limit = 1_000_000
	return s.Inspectable.CountUnsettled(ctx, q)
}

type losesUndone struct{ store.Inspectable }

func (s losesUndone) History(ctx context.Context, id store.ID) ([]store.SettlementRecord, error) {
	history, err := s.Inspectable.History(ctx, id)
	for i := range history {
		history[i].Undone = ""
	}
	return history, err
}

type newestHistory struct{ store.Inspectable }

func (s newestHistory) History(ctx context.Context, id store.ID) ([]store.SettlementRecord, error) {
	history, err := s.Inspectable.History(ctx, id)
	slices.Reverse(history)
	return history, err
}

type looksAnyway struct{ store.Inspectable }

func (s looksAnyway) History(ctx context.Context, id store.ID) ([]store.SettlementRecord, error) {
	return s.Inspectable.History(context.WithoutCancel(ctx), id)
}
