package main

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
)

// scraped is what Prometheus gets.
type scraped struct {
	text   string
	values map[string]string                     // by series
	labels map[string]map[string]map[string]bool // the values of the labels, by the name of a sample and of a label
}

func (s scraped) value(series string) string { return s.values[series] }

func scrape(t *testing.T, p *apptest.Process) scraped {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, metricsURL(t, p), nil)
	require.NoError(t, err)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	require.NoError(t, err)

	s := scraped{string(text), map[string]string{}, map[string]map[string]map[string]bool{}}
	for name, family := range families {
		for _, m := range family.Metric {
			if m.Histogram == nil {
				s.add(name, m.Label, m.GetCounter().GetValue()+m.GetGauge().GetValue())
				continue
			}
			s.add(name+"_count", m.Label, float64(m.Histogram.GetSampleCount()))
			s.add(name+"_sum", m.Label, m.Histogram.GetSampleSum())
			le, inf := "le", "+Inf"
			s.add(name+"_bucket", append(m.Label, &dto.LabelPair{Name: &le, Value: &inf}), float64(m.Histogram.GetSampleCount()))
		}
	}
	return s
}

func (s scraped) add(name string, pairs []*dto.LabelPair, value float64) {
	if s.labels[name] == nil {
		s.labels[name] = map[string]map[string]bool{}
	}
	var series []string
	for _, pair := range pairs {
		label := pair.GetName()
		if s.labels[name][label] == nil {
			s.labels[name][label] = map[string]bool{}
		}
		s.labels[name][label][pair.GetValue()] = true
		if !strings.HasPrefix(label, "otel_scope_") {
			series = append(series, label+"="+strconv.Quote(pair.GetValue()))
		}
	}
	slices.Sort(series)
	s.values[name+"{"+strings.Join(series, ",")+"}"] = strconv.FormatFloat(value, 'f', -1, 64)
}
