package storetest_test

import (
	"context"
	"time"

	"github.com/auth19/idem/core/store"
)

// The mutants of a store.Operations.
var countMutants = map[string]mutantOf[store.Operations, store.Operations]{
	"counts no operations":       {"Count/States", func(s store.Operations) store.Operations { return blind{s} }},
	"counts the unknown only":    {"Count/States", func(s store.Operations) store.Operations { return noHalves{s} }},
	"counts more than the limit": {"Count/Limit", func(s store.Operations) store.Operations { return boundless{s} }},
	"counts the newest":          {"Count/Limit", func(s store.Operations) store.Operations { return ageless{s} }},
	"counts all services":        {"Count/Within", func(s store.Operations) store.Operations { return everywhere{s} }},
	"counts the swept only":      {"Count/Unswept", func(s store.Operations) store.Operations { return sweptOnly{s} }},
	"counts every route":         {"Count/Filters", func(s store.Operations) store.Operations { return everyRoute{s} }},
	"counts every age":           {"Count/Ages", func(s store.Operations) store.Operations { return agesNothing{s} }},
	"counts a route regardless":  {"Count/Cancelled", func(s store.Operations) store.Operations { return countsRegardless{s} }},
}

type blind struct{ store.Operations }

func (blind) Count(context.Context, store.Query) ([]store.Count, error) { return nil, nil }

type noHalves struct{ store.Operations }

func (s noHalves) Count(ctx context.Context, q store.Query) (unknown []store.Count, err error) {
	all, err := s.Operations.Count(ctx, q)
	for _, b := range all {
		if !b.HalfDone {
			unknown = append(unknown, b)
		}
	}
	return unknown, err
}

type boundless struct{ store.Operations }

func (s boundless) Count(ctx context.Context, q store.Query) ([]store.Count, error) {
	q.Limit = 1000
	return s.Operations.Count(ctx, q)
}

type ageless struct{ store.Operations }

func (s ageless) Count(ctx context.Context, q store.Query) ([]store.Count, error) {
	all, err := s.Operations.Count(ctx, q)
	for i := range all {
		all[i].Oldest = all[i].Oldest.Add(time.Hour)
	}
	return all, err
}

type everywhere struct{ store.Operations }

func (s everywhere) Count(ctx context.Context, q store.Query) ([]store.Count, error) {
	q.Within = nil
	return s.Operations.Count(ctx, q)
}

type countsRegardless struct{ store.Operations }

func (s countsRegardless) Count(ctx context.Context, q store.Query) ([]store.Count, error) {
	return s.Operations.Count(context.WithoutCancel(ctx), q)
}

// sweptOnly never counts Resume operations before a sweep has seen them.
type sweptOnly struct{ store.Operations }

func (s sweptOnly) Count(ctx context.Context, q store.Query) ([]store.Count, error) {
	if !q.Swept {
		q.Resumable, q.HalfDone = false, false
	}
	return s.Operations.Count(ctx, q)
}

type everyRoute struct{ store.Operations }

func (s everyRoute) Count(ctx context.Context, q store.Query) ([]store.Count, error) {
	q.Route = ""
	return s.Operations.Count(ctx, q)
}

type agesNothing struct{ store.Operations }

func (s agesNothing) Count(ctx context.Context, q store.Query) ([]store.Count, error) {
	counts, err := s.Operations.Count(ctx, q)
	for i := range counts {
		counts[i].Hour = counts[i].Day
	}
	return counts, err
}
