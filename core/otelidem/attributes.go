package otelidem

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// The attributes of metrics and spans. http.route and http.request.method are those of the semantic conventions.
const (
	routeKey    = attribute.Key("http.route")
	methodKey   = attribute.Key("http.request.method")
	recoveryKey = attribute.Key("idem.recovery")
	resultKey   = attribute.Key("idem.result")
	kindKey     = attribute.Key("idem.kind")
	stateKey    = attribute.Key("idem.state")

	operationKey = attribute.Key("idem.operation") // of spans only, as are the next ones
	fenceKey     = attribute.Key("idem.fence")
	waitingKey   = attribute.Key("idem.waiting")
)

// The values of idem.state.
const (
	unknown  = "unknown"
	halfDone = "half_done"
)

// labels are what the attributes of a metric are made of.
type labels struct {
	route, method string
	recovery      store.Recovery
	result        string
	kind          core.EventKind
}

// labelsOf are those of an event.
func labelsOf(e core.Event) labels {
	l := labels{route: e.Route, method: e.Method, recovery: e.Recovery}
	if e.Code == core.CodeRouteUndeclared {
		l.route = "" // it is in nobody's table
	}
	return l
}

// with returns the labels with a result.
func (l labels) with(result string) labels {
	l.result = result
	return l
}

func recoveryOf(r store.Recovery) string {
	switch r {
	case store.Rollback:
		return "rollback"
	case store.Resume:
		return "resume"
	case store.Park:
		return "park"
	}
	return ""
}

// attributes are those that apply.
func (l labels) attributes() []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, 8)
	for _, a := range [...]attribute.KeyValue{
		routeKey.String(l.route), methodKey.String(l.method), recoveryKey.String(recoveryOf(l.recovery)),
		resultKey.String(l.result), kindKey.String(string(l.kind)),
	} {
		if a.Value.AsString() != "" {
			all = append(all, a)
		}
	}
	return all
}

// optionsOf are the attributes of a metric or a span in the forms in which OpenTelemetry takes them.
type optionsOf struct {
	add    []metric.AddOption
	record []metric.RecordOption
	start  []trace.SpanStartOption
}

// sets are the attribute sets that were used so far: making one costs more than counting with it. There are as many as
// there are series.
type sets struct {
	mu   sync.RWMutex
	made map[labels]*optionsOf
}

func (s *sets) of(l labels) *optionsOf {
	s.mu.RLock()
	found := s.made[l]
	s.mu.RUnlock()
	if found != nil {
		return found
	}
	all := l.attributes()
	set := metric.WithAttributeSet(attribute.NewSet(all...))
	found = &optionsOf{
		[]metric.AddOption{set}, []metric.RecordOption{set}, []trace.SpanStartOption{trace.WithAttributes(all...)},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil {
		s.made = map[labels]*optionsOf{}
	}
	s.made[l] = found
	return found
}

func (s *sets) kind(kind core.EventKind) *optionsOf { return s.of(labels{kind: kind}) }
