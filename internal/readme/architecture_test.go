package readme

import (
	"io/fs"
	"path"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Patterns in docs/architecture.md.
var (
	// A link to a file of code, and the names that are said to be in it: [core/verdict.go](../core/verdict.go): `judge`.
	goLink = regexp.MustCompile("\\[([^\\]]+\\.(?:go|sql))\\]\\(([^)]+)\\)((?:[:,]\\s`\\w+`)*)")
	goName = regexp.MustCompile("`(\\w+)`")
	// Any other mention of a file.
	goFile = regexp.MustCompile(`[\w./-]+\.(?:go|sql|md)\b`)
)

// A file that docs/architecture.md names must exist, and declare what the page says that it declares.
func TestArchitectureNamesWhatExists(t *testing.T) {
	const page = "docs/architecture.md"
	text := read(t, page)
	links := goLink.FindAllStringSubmatch(text, -1)
	require.Greater(t, len(links), 40)
	for _, l := range links {
		file := path.Join("docs", l[2])
		require.Contains(t, []string{file, path.Base(file)}, l[1], "the text of a link is the file that it leads to")
		source := read(t, file)
		for _, name := range goName.FindAllStringSubmatch(l[3], -1) {
			declared := regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |\t|const |var |-- name: |-- macro: )` + name[1] + `\b`)
			require.Regexp(t, declared, source, "%s: %s", file, name[1])
		}
	}
	for _, file := range goFile.FindAllString(goLink.ReplaceAllString(text, ""), -1) {
		_, err := fs.Stat(root, path.Join("docs", file))
		if err != nil {
			_, err = fs.Stat(root, file)
		}
		require.NoError(t, err, "%s names %s", page, file)
	}
}
