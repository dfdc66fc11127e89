package storetest_test

import (
	"context"
	"time"

	"github.com/auth19/idem/core/store"
)

// The mutants of a store.Operations.
var surveyMutants = map[string]mutantOf[store.Operations, store.Operations]{
	"surveys nothing":          {"Survey/States", func(s store.Operations) store.Operations { return blind{s} }},
	"surveys the unknown only": {"Survey/States", func(s store.Operations) store.Operations { return noHalves{s} }},
	"surveys without a limit":  {"Survey/Limit", func(s store.Operations) store.Operations { return boundless{s} }},
	"surveys the newest":       {"Survey/Limit", func(s store.Operations) store.Operations { return ageless{s} }},
	"surveys all services":     {"Survey/Within", func(s store.Operations) store.Operations { return everywhere{s} }},
	"surveys regardless":       {"Survey/Cancelled", func(s store.Operations) store.Operations { return heedlessSurvey{s} }},
}

type blind struct{ store.Operations }

func (blind) Survey(context.Context, []byte, int) ([]store.Backlog, error) { return nil, nil }

type noHalves struct{ store.Operations }

func (s noHalves) Survey(ctx context.Context, within []byte, limit int) (unknown []store.Backlog, err error) {
	all, err := s.Operations.Survey(ctx, within, limit)
	for _, b := range all {
		if !b.HalfDone {
			unknown = append(unknown, b)
		}
	}
	return unknown, err
}

type boundless struct{ store.Operations }

func (s boundless) Survey(ctx context.Context, within []byte, _ int) ([]store.Backlog, error) {
	return s.Operations.Survey(ctx, within, 1000)
}

type ageless struct{ store.Operations }

func (s ageless) Survey(ctx context.Context, within []byte, limit int) ([]store.Backlog, error) {
	all, err := s.Operations.Survey(ctx, within, limit)
	for i := range all {
		all[i].Oldest = all[i].Oldest.Add(time.Hour)
	}
	return all, err
}

type everywhere struct{ store.Operations }

func (s everywhere) Survey(ctx context.Context, _ []byte, limit int) ([]store.Backlog, error) {
	return s.Operations.Survey(ctx, nil, limit)
}

type heedlessSurvey struct{ store.Operations }

func (s heedlessSurvey) Survey(ctx context.Context, within []byte, limit int) ([]store.Backlog, error) {
	return s.Operations.Survey(context.WithoutCancel(ctx), within, limit)
}
