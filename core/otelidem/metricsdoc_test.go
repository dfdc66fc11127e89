package otelidem_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/auth19/idem/core"
)

const doc = "../../docs/observability/metrics.md"

// setsOf are the attribute sets of a metric.
func setsOf(m metricdata.Metrics) (all []attribute.Set) {
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			all = append(all, p.Attributes)
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			all = append(all, p.Attributes)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			all = append(all, p.Attributes)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			all = append(all, p.Attributes)
		}
	}
	return all
}

func requireNoOperation(t *testing.T, m metricdata.Metrics) {
	t.Helper()
	for _, set := range setsOf(m) {
		require.False(t, set.HasValue("idem.operation"), m.Name)
	}
}

// row is a line of the page's table, as the metric should be.
func row(m metricdata.Metrics) string {
	kind, prometheus := "", strings.ReplaceAll(m.Name, ".", "_")
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		kind = "up-down counter"
		if data.IsMonotonic {
			kind, prometheus = "counter", prometheus+"_total"
		}
	case metricdata.Gauge[int64], metricdata.Gauge[float64]:
		kind = "gauge"
	case metricdata.Histogram[float64]:
		kind = "histogram"
	}
	if m.Unit == "s" {
		prometheus += "_seconds"
	}
	names := map[string]bool{}
	for _, set := range setsOf(m) {
		for _, kv := range set.ToSlice() {
			names["`"+string(kv.Key)+"`"] = true
		}
	}
	attributes := "none"
	if len(names) > 0 {
		attributes = strings.Join(slices.Sorted(maps.Keys(names)), ", ")
	}
	return fmt.Sprintf("| `%s` | %s | `%s` | %s | `%s` |", m.Name, kind, m.Unit, attributes, prometheus)
}

// The page lists the metrics that exist, and no others; all results and kinds are on it.
func TestPageOfMetrics(t *testing.T) {
	a := newGin(t, core.Config{})
	stop, err := a.Watch(a.module)
	require.NoError(t, err)
	defer stop()
	a.send(t, "k-1", `{}`)
	a.handle = status(http.StatusBadGateway)
	a.send(t, "k-2", `{}`)
	page, err := os.ReadFile(doc)
	require.NoError(t, err)
	var written, want []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `idem.") && strings.Count(line, "|") == 6 {
			cells := strings.Split(strings.TrimSpace(line), " | ")
			names := strings.Split(cells[3], ", ")
			slices.Sort(names)
			cells[3] = strings.Join(names, ", ")
			written = append(written, strings.Join(cells, " | "))
		}
	}
	got := a.collect(t)
	for _, m := range got {
		want = append(want, row(m))
	}
	require.ElementsMatch(t, want, written)
	for kind := range warned(got) {
		require.Contains(t, string(page), "`"+kind+"`")
	}
	for _, result := range []string{"created", "reused", "freed", "rolled_back", "yielded", "unknown", "stale", "unconfirmed"} {
		require.Contains(t, string(page), "`"+result+"`")
	}
	for _, bound := range got["idem.claim.duration"].Data.(metricdata.Histogram[float64]).DataPoints[0].Bounds {
		require.Contains(t, strings.Join(strings.Fields(string(page)), " "), " "+strconv.FormatFloat(bound, 'f', -1, 64))
	}
}

// warningsOfCore counts the kinds of events that core says deserve attention.
func warningsOfCore(t *testing.T) (n int) {
	t.Helper()
	file, err := parser.ParseFile(gotoken.NewFileSet(), "../observer.go", nil, 0)
	require.NoError(t, err)
	for node := range ast.Preorder(file) {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			continue
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			continue
		}
		kind, err := strconv.Unquote(literal.Value)
		require.NoError(t, err)
		if core.EventKind(kind).IsWarning() {
			n++
		}
	}
	require.Greater(t, n, 10)
	return n
}
