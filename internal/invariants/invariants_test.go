package invariants

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/contributors/invariants.md")

const (
	root = "../.."
	page = root + "/docs/contributors/invariants.md"
)

func TestEveryRuleIsProven(t *testing.T) {
	f, err := find("github.com/auth19/idem", os.DirFS(root))
	require.NoError(t, err)
	want := render(f)
	if *update {
		require.NoError(t, os.WriteFile(page, want, 0o644))
	}
	for _, wrong := range check(f) {
		t.Error(wrong)
	}
	got, err := os.ReadFile(page)
	require.NoError(t, err)
	if bytes.Equal(got, want) {
		return
	}
	t.Error("docs/contributors/invariants.md is out of date: go test ./internal/invariants -update")
	logMissing(t, "- ", got, want)
	logMissing(t, "+ ", want, got)
}

// logMissing logs the lines of one text that the other has not.
func logMissing(t *testing.T, sign string, text, other []byte) {
	there := map[string]bool{}
	for line := range strings.Lines(string(other)) {
		there[line] = true
	}
	for line := range strings.Lines(string(text)) {
		if !there[line] {
			t.Log(sign + line)
		}
	}
}

// source holds a comment in each place where one may stand.
const source = `package p

import "testing"

// Something else first.
//
// CONTRACT K-1, K-2
func TestAbove(t *testing.T) {
	// CONTRACT K-3
	t.Run("a subtest", func(t *testing.T) {})

	// A claim
	// CONTRACT K-4
	f := func() {}
	f() // a word, and no mark: CONTRACT K-9
	for _, name := range []string{"a"} {
		// CONTRACT K-5
		t.Run(name, func(t *testing.T) {})
	}
}
`

func TestFind(t *testing.T) {
	f, err := find("example.org/m", fstest.MapFS{
		"a/p_test.go":          {Data: []byte(source)},
		"a/testdata/p_test.go": {Data: []byte(source)},
		".b/p_test.go":         {Data: []byte(source)},
		"suite/suite.go":       {Data: []byte("package suite\n\n// CONTRACT X-1\nfunc check() {}\n")},
		"orphan/suite.go":      {Data: []byte("package orphan\n\n// CONTRACT Y-9\nfunc check() {}\n")},
		"c/c_test.go":          {Data: []byte("package c\n\nimport _ \"example.org/m/suite\"\n")},
		"suite/suite_test.go":  {Data: []byte("package suite_test\n\nimport _ \"example.org/m/suite\"\n")},
	})
	require.NoError(t, err)
	require.Equal(t, []proof{
		{"a/p_test.go", "TestAbove", []string{"K-1", "K-2"}},
		{"a/p_test.go", "TestAbove/a subtest", []string{"K-3"}},
		{"a/p_test.go", "TestAbove", []string{"K-4"}},
		{"a/p_test.go", "TestAbove", []string{"K-5"}},
		{"orphan/suite.go", "check", []string{"Y-9"}},
		{"suite/suite.go", "check", []string{"X-1"}},
	}, f.proofs)
	require.Equal(t, map[string][]string{"suite": {"c", "suite"}, "orphan": nil}, f.suites)

	wrong := check(f)
	require.Contains(t, wrong, `orphan/suite.go: check: "Y-9" is no rule; write // CONTRACT K-2, K-3`)
	require.Contains(t, wrong, "orphan names rules, but no test runs it")
	require.Contains(t, wrong, "K-8 has no test: Safe methods and unmatched routes pass through.")
	require.NotContains(t, wrong, "K-1 has no test: No key, or an empty one: 400 key_missing.")

	_, err = find("example.org/m", fstest.MapFS{"a_test.go": {Data: []byte("package a\n\n// CONTRACT K-1\nvar a = 1\n")}})
	require.ErrorContains(t, err, "a_test.go:3:1")
}
