// Package readme keeps the prose true: the code in it is code that is tested elsewhere, and its links lead somewhere.
package readme

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	root  = os.DirFS("../..")
	block = regexp.MustCompile("(?s)```go\n(.*?)```")
	link  = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`) // no address has a colon but those of other sites
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := fs.ReadFile(root, name)
	require.NoError(t, err)
	return string(text)
}

// pages are the README, what stands beside it and what is in docs.
func pages(t *testing.T) []string {
	t.Helper()
	docs, err := fs.Glob(root, "docs/*.md")
	require.NoError(t, err)
	return append(docs, "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
}

// The README shows parts of examples that run, line by line.
func TestCodeIsFromExamples(t *testing.T) {
	var examples []string
	for _, file := range []string{"ginidem/example_test.go", "echoidem/example_test.go", "gormstore/example_step_test.go"} {
		examples = append(examples, read(t, file))
	}
	blocks := block.FindAllStringSubmatch(read(t, "README.md"), -1)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		found := false
		for _, example := range examples {
			found = found || strings.Contains(example, b[1])
		}
		require.True(t, found, "in no example:\n%s", b[1])
	}
}

func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		for _, l := range link.FindAllStringSubmatch(read(t, page), -1) {
			_, err := fs.Stat(root, path.Join(path.Dir(page), l[1]))
			require.NoError(t, err, "%s links to %s", page, l[1])
		}
	}
}
