package main

import (
	"encoding/json"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

const observability = "../../docs/observability/"

// query is a query of a rule or a panel, and the labels that its texts show.
type query struct {
	where, expr string
	shown       []string
}

var (
	shownLabel = regexp.MustCompile(`\$labels\.(\w+)`)
	legend     = regexp.MustCompile(`{{ *(\w+) *}}`)
	ofVariable = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
)

// compareQueries parses every query of rules and dashboard. Each metric, each label and each value of a label that it names
// must exist.
func compareQueries(t *testing.T, m scraped) {
	t.Helper()
	rules, recorded := queriesOfRules(t)
	queries := slices.Concat(rules, queriesOfDashboard(t))
	require.Greater(t, len(queries), 25)
	for name, expr := range recorded {
		m.labels[name] = m.labels[selectors(t, name, expr)[0].Name] // what is recorded keeps the labels that are left
	}
	used := map[string]bool{}
	for _, q := range queries {
		known := map[string]bool{"job": true, "instance": true} // of Prometheus
		found := selectors(t, q.where, q.expr)
		require.NotEmpty(t, found, q.where)
		for _, s := range found {
			require.Contains(t, m.labels, s.Name, "%s: there is no such metric", q.where)
			used[s.Name] = true
			for label := range m.labels[s.Name] {
				known[label] = true
			}
			for _, matcher := range s.LabelMatchers {
				if matcher.Name != model.MetricNameLabel && matcher.Name != "job" {
					require.Contains(t, m.labels[s.Name], matcher.Name, "%s: %s has no such label", q.where, s.Name)
					checkValues(t, q.where, matcher, m)
				}
			}
		}
		for _, label := range append(grouped(t, q), q.shown...) {
			require.Contains(t, known, label, "%s: no metric of it has this label", q.where)
		}
	}
	for name := range m.labels {
		family := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count"), "_bucket")
		if strings.HasPrefix(name, "idem_") {
			require.True(t, used[name] || used[family+"_bucket"], "nobody looks at %s", name)
		}
	}
}

// checkValues looks for the values that a matcher names, in any metric with this label. Refusals are rare: they are compared
// with the codes of core.
func checkValues(t *testing.T, where string, matcher *labels.Matcher, m scraped) {
	t.Helper()
	seen := map[string]bool{}
	for _, all := range m.labels {
		maps.Copy(seen, all[matcher.Name])
	}
	for value := range strings.SplitSeq(matcher.Value, "|") {
		isCode := core.NewProblem(core.Code(value), "").Title != core.NewProblem("", "").Title
		require.True(t, seen[value] || matcher.Name == "idem_result" && isCode, "%s: %s is never %s", where, matcher.Name, value)
	}
}

func selectors(t *testing.T, where, expr string) (found []*parser.VectorSelector) {
	t.Helper()
	inspect(t, where, expr, func(node parser.Node) {
		if s, ok := node.(*parser.VectorSelector); ok {
			found = append(found, s)
		}
	})
	return found
}

// grouped are the labels that a query groups by or joins on.
func grouped(t *testing.T, q query) (names []string) {
	t.Helper()
	inspect(t, q.where, q.expr, func(node parser.Node) {
		switch n := node.(type) {
		case *parser.AggregateExpr:
			names = append(names, n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				names = append(names, n.VectorMatching.MatchingLabels...)
			}
		}
	})
	return names
}

func inspect(t *testing.T, where, expr string, each func(parser.Node)) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	require.NoError(t, err, where)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		each(node)
		return nil
	})
}

// queriesOfRules returns the queries of the rules file, and those that are recorded by name.
func queriesOfRules(t *testing.T) (queries []query, recorded map[string]string) {
	t.Helper()
	groups, errs := rulefmt.Parse([]byte(content(t, observability+"rules.yml")), false, model.LegacyValidation,
		parser.NewParser(parser.Options{}), slog.Default())
	require.Empty(t, errs)
	recorded = map[string]string{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			q := query{where: rule.Alert + rule.Record, expr: rule.Expr}
			if rule.Record != "" {
				recorded[rule.Record] = rule.Expr
			}
			for _, text := range slices.Sorted(maps.Values(rule.Annotations)) {
				for _, label := range shownLabel.FindAllStringSubmatch(text, -1) {
					q.shown = append(q.shown, label[1])
				}
			}
			queries = append(queries, q)
		}
	}
	return queries, recorded
}

// queriesOfDashboard returns the queries of its panels and of its variables.
func queriesOfDashboard(t *testing.T) (queries []query) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			ID          int
			Type, Title string
			Targets     []struct{ RefID, Expr, LegendFormat string }
			GridPos     struct{ X, Y, W, H int }
			DataSource  struct{ UID string }
		}
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(content(t, observability+"dashboard.json")), &dashboard))
	variables := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*")
	ids := map[int]bool{}
	for _, panel := range dashboard.Panels {
		require.False(t, ids[panel.ID], "two panels have the id %d", panel.ID)
		ids[panel.ID] = true
		require.LessOrEqual(t, panel.GridPos.X+panel.GridPos.W, 24, panel.Title)
		require.Equal(t, panel.Type == "row", len(panel.Targets) == 0, panel.Title)
		for _, target := range panel.Targets {
			require.Equal(t, "${datasource}", panel.DataSource.UID, panel.Title)
			q := query{where: "panel " + panel.Title, expr: variables.Replace(target.Expr)}
			for _, label := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				q.shown = append(q.shown, label[1])
			}
			queries = append(queries, q)
		}
	}
	for _, v := range dashboard.Templating.List {
		if v.Type == "query" {
			parts := ofVariable.FindStringSubmatch(v.Definition)
			require.NotNil(t, parts, v.Definition)
			queries = append(queries, query{where: "variable " + v.Name, expr: parts[1], shown: parts[2:]})
		}
	}
	return queries
}
