package storetest_test

import (
	"context"
	"time"

	"github.com/auth19/idem/core"
)

// The mutants of a core.Surveyor.
var surveyMutants = map[string]mutantOf[core.Surveyor, core.Surveyor]{
	"surveys nothing":          {"Survey/States", func(s core.Surveyor) core.Surveyor { return blind{s} }},
	"surveys the unknown only": {"Survey/States", func(s core.Surveyor) core.Surveyor { return noHalves{s} }},
	"surveys without a limit":  {"Survey/Limit", func(s core.Surveyor) core.Surveyor { return boundless{s} }},
	"surveys the newest":       {"Survey/Limit", func(s core.Surveyor) core.Surveyor { return ageless{s} }},
	"surveys all services":     {"Survey/Within", func(s core.Surveyor) core.Surveyor { return everywhere{s} }},
	"surveys regardless":       {"Survey/Cancelled", func(s core.Surveyor) core.Surveyor { return heedlessSurvey{s} }},
}

type blind struct{ core.Surveyor }

func (blind) Survey(context.Context, []byte, int) ([]core.Backlog, error) { return nil, nil }

type noHalves struct{ core.Surveyor }

func (s noHalves) Survey(ctx context.Context, within []byte, limit int) (unknown []core.Backlog, err error) {
	all, err := s.Surveyor.Survey(ctx, within, limit)
	for _, b := range all {
		if !b.HalfDone {
			unknown = append(unknown, b)
		}
	}
	return unknown, err
}

type boundless struct{ core.Surveyor }

func (s boundless) Survey(ctx context.Context, within []byte, _ int) ([]core.Backlog, error) {
	return s.Surveyor.Survey(ctx, within, 1000)
}

type ageless struct{ core.Surveyor }

func (s ageless) Survey(ctx context.Context, within []byte, limit int) ([]core.Backlog, error) {
	all, err := s.Surveyor.Survey(ctx, within, limit)
	for i := range all {
		all[i].Oldest = all[i].Oldest.Add(time.Hour)
	}
	return all, err
}

type everywhere struct{ core.Surveyor }

func (s everywhere) Survey(ctx context.Context, _ []byte, limit int) ([]core.Backlog, error) {
	return s.Surveyor.Survey(ctx, nil, limit)
}

type heedlessSurvey struct{ core.Surveyor }

func (s heedlessSurvey) Survey(ctx context.Context, within []byte, limit int) ([]core.Backlog, error) {
	return s.Surveyor.Survey(context.WithoutCancel(ctx), within, limit)
}
