package storetest_test

import (
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core"
)

// inspectMutants are stores with one fault in what operators look through: see mutants.
var inspectMutants = map[string]mutantOf[core.Inspectable, core.Store]{
	"shows every realm":         {"Inspect/Within", func(s core.Inspectable) core.Store { return showsEveryRealm{s} }},
	"forgets the half-done":     {"Inspect/Unsettled", func(s core.Inspectable) core.Store { return forgetsHalfDone{s} }},
	"shows every route":         {"Inspect/Filters", func(s core.Inspectable) core.Store { return showsEveryRoute{s} }},
	"ends a moment too late":    {"Inspect/Filters", func(s core.Inspectable) core.Store { return endsLate{s} }},
	"shows every principal":     {"Inspect/Filters", func(s core.Inspectable) core.Store { return showsEveryPrincipal{s} }},
	"never the newest first":    {"Inspect/Pages", func(s core.Inspectable) core.Store { return neverNewest{s} }},
	"near in every realm":       {"Inspect/Near", func(s core.Inspectable) core.Store { return nearEverywhere{s} }},
	"settled in every realm":    {"Inspect/LastSettled", func(s core.Inspectable) core.Store { return settledEverywhere{s} }},
	"answers of every realm":    {"Inspect/LastAnswered", func(s core.Inspectable) core.Store { return answeredEverywhere{s} }},
	"opens every realm":         {"Inspect/OpenSteps", func(s core.Inspectable) core.Store { return opensEverywhere{s} }},
	"pages by age alone":        {"Inspect/Pages", func(s core.Inspectable) core.Store { return repeatsTheLast{s} }},
	"counts all that there are": {"Inspect/Counts", func(s core.Inspectable) core.Store { return countsEverything{s} }},
	"loses what was undone":     {"Inspect/History", func(s core.Inspectable) core.Store { return losesUndone{s} }},
	"tells the newest first":    {"Inspect/History", func(s core.Inspectable) core.Store { return newestHistory{s} }},
	"looks after a cancelled":   {"Inspect/Cancelled", func(s core.Inspectable) core.Store { return looksAnyway{s} }},
}

type showsEveryRealm struct{ core.Inspectable }

func (s showsEveryRealm) Unsettled(ctx context.Context, q core.UnsettledQuery) ([]core.Record, error) {
	q.Within = nil
	return s.Inspectable.Unsettled(ctx, q)
}

type forgetsHalfDone struct{ core.Inspectable }

func (s forgetsHalfDone) CountUnsettled(ctx context.Context, q core.UnsettledQuery) ([]core.UnsettledCount, error) {
	counts, err := s.Inspectable.CountUnsettled(ctx, q)
	return slices.DeleteFunc(counts, func(c core.UnsettledCount) bool { return c.HalfDone }), err
}

type showsEveryRoute struct{ core.Inspectable }

func (s showsEveryRoute) Unsettled(ctx context.Context, q core.UnsettledQuery) ([]core.Record, error) {
	q.Route = ""
	return s.Inspectable.Unsettled(ctx, q)
}

type showsEveryPrincipal struct{ core.Inspectable }

func (s showsEveryPrincipal) Unsettled(ctx context.Context, q core.UnsettledQuery) ([]core.Record, error) {
	q.Scope = core.Scope{}
	return s.Inspectable.Unsettled(ctx, q)
}

type neverNewest struct{ core.Inspectable }

func (s neverNewest) Unsettled(ctx context.Context, q core.UnsettledQuery) ([]core.Record, error) {
	q.Newest = false
	return s.Inspectable.Unsettled(ctx, q)
}

type nearEverywhere struct{ core.Inspectable }

func (s nearEverywhere) Near(ctx context.Context, _ []byte, n core.Near, limit int) ([]core.ID, error) {
	return s.Inspectable.Near(ctx, nil, n, limit)
}

type opensEverywhere struct{ core.Inspectable }

func (s opensEverywhere) OpenSteps(ctx context.Context, _ []byte, limit int) ([]core.OpenStep, error) {
	return s.Inspectable.OpenSteps(ctx, nil, limit)
}

type settledEverywhere struct{ core.Inspectable }

func (s settledEverywhere) LastSettled(ctx context.Context, _ []byte, by string, limit int) ([]core.SettledOperation, error) {
	return s.Inspectable.LastSettled(ctx, nil, by, limit)
}

type answeredEverywhere struct{ core.Inspectable }

func (s answeredEverywhere) LastAnswered(ctx context.Context, _ []byte, method, route string) (core.Record, error) {
	return s.Inspectable.LastAnswered(ctx, nil, method, route)
}

type endsLate struct{ core.Inspectable }

func (s endsLate) Unsettled(ctx context.Context, q core.UnsettledQuery) ([]core.Record, error) {
	if !q.Until.IsZero() {
		q.Until = q.Until.Add(time.Second)
	}
	return s.Inspectable.Unsettled(ctx, q)
}

type repeatsTheLast struct{ core.Inspectable }

func (s repeatsTheLast) Unsettled(ctx context.Context, q core.UnsettledQuery) ([]core.Record, error) {
	q.After.ID = core.ID{}
	return s.Inspectable.Unsettled(ctx, q)
}

type countsEverything struct{ core.Inspectable }

func (s countsEverything) CountUnsettled(ctx context.Context, q core.UnsettledQuery) ([]core.UnsettledCount, error) {
	q.Limit = 1_000_000
	return s.Inspectable.CountUnsettled(ctx, q)
}

type losesUndone struct{ core.Inspectable }

func (s losesUndone) History(ctx context.Context, id core.ID) ([]core.SettlementRecord, error) {
	history, err := s.Inspectable.History(ctx, id)
	for i := range history {
		history[i].Undone = ""
	}
	return history, err
}

type newestHistory struct{ core.Inspectable }

func (s newestHistory) History(ctx context.Context, id core.ID) ([]core.SettlementRecord, error) {
	history, err := s.Inspectable.History(ctx, id)
	slices.Reverse(history)
	return history, err
}

type looksAnyway struct{ core.Inspectable }

func (s looksAnyway) History(ctx context.Context, id core.ID) ([]core.SettlementRecord, error) {
	return s.Inspectable.History(context.WithoutCancel(ctx), id)
}
