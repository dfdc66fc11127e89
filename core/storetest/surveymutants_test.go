package storetest_test

import (
	"context"
	"time"

	"github.com/auth19/idem/core/store"
)

// The mutants of a store.Surveyor.
var surveyMutants = map[string]mutantOf[store.Surveyor, store.Surveyor]{
	"surveys nothing":          {"Survey/States", func(s store.Surveyor) store.Surveyor { return blind{s} }},
	"surveys the unknown only": {"Survey/States", func(s store.Surveyor) store.Surveyor { return noHalves{s} }},
	"surveys without a limit":  {"Survey/Limit", func(s store.Surveyor) store.Surveyor { return boundless{s} }},
	"surveys the newest":       {"Survey/Limit", func(s store.Surveyor) store.Surveyor { return ageless{s} }},
	"surveys all services":     {"Survey/Within", func(s store.Surveyor) store.Surveyor { return everywhere{s} }},
	"surveys regardless":       {"Survey/Cancelled", func(s store.Surveyor) store.Surveyor { return heedlessSurvey{s} }},
}

type blind struct{ store.Surveyor }

func (blind) Survey(context.Context, []byte, int) ([]store.Backlog, error) { return nil, nil }

type noHalves struct{ store.Surveyor }

func (s noHalves) Survey(ctx context.Context, within []byte, limit int) (unknown []store.Backlog, err error) {
	all, err := s.Surveyor.Survey(ctx, within, limit)
	for _, b := range all {
		if !b.HalfDone {
			unknown = append(unknown, b)
		}
	}
	return unknown, err
}

type boundless struct{ store.Surveyor }

func (s boundless) Survey(ctx context.Context, within []byte, _ int) ([]store.Backlog, error) {
	return s.Surveyor.Survey(ctx, within, 1000)
}

type ageless struct{ store.Surveyor }

func (s ageless) Survey(ctx context.Context, within []byte, limit int) ([]store.Backlog, error) {
	all, err := s.Surveyor.Survey(ctx, within, limit)
	for i := range all {
		all[i].Oldest = all[i].Oldest.Add(time.Hour)
	}
	return all, err
}

type everywhere struct{ store.Surveyor }

func (s everywhere) Survey(ctx context.Context, _ []byte, limit int) ([]store.Backlog, error) {
	return s.Surveyor.Survey(ctx, nil, limit)
}

type heedlessSurvey struct{ store.Surveyor }

func (s heedlessSurvey) Survey(ctx context.Context, within []byte, limit int) ([]store.Backlog, error) {
	return s.Surveyor.Survey(context.WithoutCancel(ctx), within, limit)
}
