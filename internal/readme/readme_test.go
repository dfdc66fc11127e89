// Package readme keeps the prose true: the code in it is code that is tested elsewhere, and its links lead somewhere.
package readme

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	root  = os.DirFS("../..")
	code  = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	block = regexp.MustCompile("(?s)```go\n(.*?)```")
	// shown is code that runs in a test, in any language.
	shown = regexp.MustCompile("(?s)```(?:go|js|ts|python|java|sh)\n(.*?)```")
	// No address has a colon but those of other sites. A link within a page has no file.
	link      = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	namedPage = regexp.MustCompile(`\bdocs/[a-z/-]+\.(?:md|yml|json)\b`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
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
	pages := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", ".github/SECURITY.md", "core/idemvet/README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		docs, err := fs.Glob(root, pattern)
		require.NoError(t, err)
		pages = append(pages, docs...)
	}
	return pages
}

// A page that the code names, in a comment or in an error, exists.
func TestPagesThatTheCodeNames(t *testing.T) {
	require.NoError(t, fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case !slices.Contains([]string{".go", ".yml", ".yaml", ".json", ".mjs", ".js", ".sh", ""}, path.Ext(file)) || entry.IsDir():
			return nil
		}
		for _, named := range namedPage.FindAllString(read(t, file), -1) {
			_, err := fs.Stat(root, named)
			require.NoError(t, err, "%s names %s", file, named)
		}
		return nil
	}))
}

// The README shows a whole example, and parts of others, line by line.
func TestCodeIsFromExamples(t *testing.T) {
	var examples []string
	for _, file := range []string{"examples/quickstart/gin/main.go", "gormstore/example_step_test.go"} {
		examples = append(examples, read(t, file))
	}
	blocks := block.FindAllStringSubmatch(read(t, "README.md"), -1)
	require.Contains(t, read(t, "README.md"), examples[0], "the quick start is a whole file")
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
		for target, anchors := range linksOf(t, page) {
			_, err := fs.Stat(root, target)
			require.NoError(t, err, "%s links to %s", page, target)
			for _, anchor := range anchors {
				require.Contains(t, anchorsOf(t, target), anchor, "%s links to %s", page, target)
			}
		}
	}
}

// shownPages are the pages, and a chapter, whose code is all from tests. Each links the files that its code is from.
var shownPages = []string{"docs/adopting.md", "docs/auth.md", "docs/client.md", "docs/databases-and-mappers.md", "docs/mounting.md",
	"core/idemvet/README.md", "docs/queues.md#Webhooks", "docs/queues.md#River"}

// The code of these pages is a part of a file that they link to, line by line. Only the indentation may differ.
func TestCodeIsFromLinkedFiles(t *testing.T) {
	for _, page := range shownPages {
		page, chapter, _ := strings.Cut(page, "#")
		text := read(t, page)
		if chapter != "" {
			_, text, _ = strings.Cut(text, "\n## "+chapter+"\n")
			text, _, _ = strings.Cut(text, "\n## ")
		}
		var files []string
		for file := range linksOf(t, page) {
			if slices.Contains([]string{".go", ".mjs", ".ts", ".py", ".java", ".sh"}, path.Ext(file)) {
				files = append(files, unindented(read(t, file)))
			}
		}
		blocks := shown.FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, blocks, page)
		for _, b := range blocks {
			lines := unindented(b[1])
			found := slices.ContainsFunc(files, func(file string) bool { return strings.Contains(file, lines) })
			require.True(t, found, "%s: in no file that the page links to:\n%s", page, b[1])
		}
	}
}

// The versions of npm's packages that docs/client.md names are those that .ci/clients installs.
func TestVersionsOfClients(t *testing.T) {
	var project struct{ Dependencies map[string]string }
	require.NoError(t, json.Unmarshal([]byte(read(t, "internal/interop/clients/package.json")), &project))
	require.NotEmpty(t, project.Dependencies)
	for name, version := range project.Dependencies {
		row := regexp.MustCompile(`(?m)^\| [^|]*\b` + name + `\b.*\| [0-9., ]*\b` + regexp.QuoteMeta(version) + `\b.*\|$`)
		require.Regexp(t, row, read(t, "docs/client.md"))
	}
}

func unindented(code string) string {
	lines := strings.Split(code, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimLeft(line, "\t ")
	}
	return "\n" + strings.Join(lines, "\n")
}

// linksOf returns what a page links to in this repository, with the anchors there. What looks like a link in its code is
// none.
func linksOf(t *testing.T, page string) map[string][]string {
	t.Helper()
	targets := map[string][]string{}
	for _, l := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, page), ""), -1) {
		target := page
		if l[1] != "" {
			target = path.Join(path.Dir(page), l[1])
		}
		if targets[target] == nil {
			targets[target] = []string{}
		}
		if l[2] != "" {
			targets[target] = append(targets[target], l[2])
		}
	}
	return targets
}

// anchorsOf returns the anchors of a page's headings, as GitHub makes them.
func anchorsOf(t *testing.T, page string) (anchors []string) {
	t.Helper()
	for _, h := range heading.FindAllStringSubmatch(read(t, page), -1) {
		text := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		anchors = append(anchors, strings.ReplaceAll(text, " ", "-"))
	}
	return anchors
}
