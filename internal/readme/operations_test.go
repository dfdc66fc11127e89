package readme

import (
	"context"
	"go/ast"
	"io/fs"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

const (
	runbook    = "docs/operations.md"
	alertRules = "docs/observability/rules.yml"
)

var (
	alertName  = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)
	runbookURL = regexp.MustCompile(`(?m)^ +runbook_url: https://\S+/docs/operations\.md#(\S+)$`)
	point      = regexp.MustCompile(`(?m)^- \*\*(Means|Look at|Do|Do not)\*\*: \S`)
)

// The runbook has an entry for every warning and every alert, and none that does not exist.
func TestRunbookHasEveryWarningAndAlert(t *testing.T) {
	// LogObserver also warns of an attempt that was rolled back because a statement had failed.
	require.ElementsMatch(t, append(warnings(t), string(core.EventRolledBack)), entriesOf(t, "Warnings"))
	var alerts []string
	for _, alert := range alertName.FindAllStringSubmatch(read(t, alertRules), -1) {
		alerts = append(alerts, alert[1])
	}
	require.Greater(t, len(alerts), 6)
	require.ElementsMatch(t, alerts, entriesOf(t, "Alerts"))
}

// The link of an alert leads to its own entry.
func TestAlertsLinkToTheRunbook(t *testing.T) {
	text, anchors := read(t, alertRules), anchorsOf(t, runbook)
	rules := strings.Split(text, "- alert: ")[1:]
	for _, rule := range rules {
		name, _, _ := strings.Cut(rule, "\n")
		links := runbookURL.FindAllStringSubmatch(rule, -1)
		require.Len(t, links, 1, name)
		require.Equal(t, strings.ToLower(name), links[0][1])
		require.Contains(t, anchors, links[0][1])
	}
}

// warnings are the kinds of events that LogObserver writes as warnings. They are those from EventLeaseLost on.
func warnings(t *testing.T) (kinds []string) {
	t.Helper()
	var declared []string
	declarations(t, "core", func(file string, declaration ast.Decl) {
		constants, ok := declaration.(*ast.GenDecl)
		if !ok || file != "observer.go" {
			return
		}
		for _, spec := range constants.Specs {
			if value, ok := spec.(*ast.ValueSpec); ok && strings.HasPrefix(value.Names[0].Name, "Event") && len(value.Values) == 1 {
				kind, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
				require.NoError(t, err)
				declared = append(declared, kind)
			}
		}
	})
	for _, kind := range declared {
		var level levelOf
		core.LogObserver(slog.New(&level)).Observe(t.Context(), core.Event{Kind: core.EventKind(kind), Count: 1})
		if slog.Level(level) == slog.LevelWarn {
			kinds = append(kinds, kind)
		}
	}
	first := slices.Index(declared, string(core.EventLeaseLost))
	require.Positive(t, first)
	require.Equal(t, declared[first:], kinds, "core says that those from EventLeaseLost on are warnings")
	return kinds
}

// What the runbook calls the parts of the inspector is what its pages call them.
func TestRunbookKnowsTheInspector(t *testing.T) {
	_, text, found := strings.Cut(read(t, runbook), "\n### In the browser\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n### ")
	var pages strings.Builder
	files, err := fs.Glob(root, "core/inspect/pages/*.html")
	require.NoError(t, err)
	for _, file := range files {
		pages.WriteString(read(t, file))
	}
	names := regexp.MustCompile(`(?s)\*\*(.+?)\*\*`).FindAllStringSubmatch(text, -1)
	require.Greater(t, len(names), 8)
	for _, name := range names {
		shown := regexp.MustCompile(`[>}]` + strings.Join(strings.Fields(regexp.QuoteMeta(name[1])), `\s+`) + ` ?[<{]`)
		require.True(t, shown.MatchString(pages.String()), "the pages show no %q", name[1])
	}
}

// entriesOf returns the titles of the entries in a chapter of the runbook. Each has the same four points in the same order.
func entriesOf(t *testing.T, chapter string) (titles []string) {
	t.Helper()
	_, text, found := strings.Cut(read(t, runbook), "\n## "+chapter+"\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n## ")
	for _, entry := range strings.Split(text, "\n### ")[1:] {
		title, body, _ := strings.Cut(entry, "\n")
		titles = append(titles, title)
		var points []string
		for _, p := range point.FindAllStringSubmatch(body, -1) {
			points = append(points, p[1])
		}
		require.Equal(t, []string{"Means", "Look at", "Do", "Do not"}, points, title)
	}
	return titles
}

// levelOf remembers the level of the last record.
type levelOf slog.Level

func (*levelOf) Enabled(context.Context, slog.Level) bool { return true }

func (l *levelOf) Handle(_ context.Context, r slog.Record) error {
	*l = levelOf(r.Level)
	return nil
}

func (l *levelOf) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *levelOf) WithGroup(string) slog.Handler { return l }
