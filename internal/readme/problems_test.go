package readme

import (
	"go/ast"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// codeRow is a row of docs/problems.md: the code, its status, and three cells.
var codeRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\d{3}) \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|$")

// docs/problems.md has each code of core once, with its status.
//
// CONTRACT P-1
func TestProblemsPageHasEveryCode(t *testing.T) {
	statuses := map[core.Code]int{}
	declarations(t, "core", func(file string, declaration ast.Decl) {
		constants, ok := declaration.(*ast.GenDecl)
		if !ok || file != "problem.go" {
			return
		}
		for _, spec := range constants.Specs {
			if value, ok := spec.(*ast.ValueSpec); ok && strings.HasPrefix(value.Names[0].Name, "Code") {
				code, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
				require.NoError(t, err)
				statuses[core.Code(code)] = core.NewProblem(core.Code(code), "").Status
			}
		}
	})
	require.Greater(t, len(statuses), 20)
	shown := map[core.Code]int{}
	for _, row := range codeRow.FindAllStringSubmatch(read(t, "docs/problems.md"), -1) {
		code := core.Code(row[1])
		require.NotContains(t, shown, code, "it is there once")
		status, err := strconv.Atoi(row[2])
		require.NoError(t, err)
		shown[code] = status
	}
	require.Equal(t, statuses, shown)
}

// The codes that the page calls repeatable are those that core sends with Retry-After.
//
// CONTRACT P-1, M-2
func TestProblemsPageSaysWhatToRepeat(t *testing.T) {
	sources, err := fs.Glob(root, "core/*.go")
	require.NoError(t, err)
	ofOperations, err := fs.Glob(root, "core/operations/*.go")
	require.NoError(t, err)
	constants := map[string]string{}
	for _, c := range regexp.MustCompile(`(Code\w+)\s+Code = "(\w+)"`).FindAllStringSubmatch(read(t, "core/problem.go"), -1) {
		constants[c[1]] = c[2]
	}
	repeatable := map[string]bool{}
	for _, file := range append(sources, ofOperations...) {
		for _, c := range regexp.MustCompile(`withRetry\((?:core\.)?NewProblem\((?:core\.)?(\w+)`).FindAllStringSubmatch(read(t, file), -1) {
			require.Contains(t, constants, c[1])
			repeatable[constants[c[1]]] = true
		}
	}
	_, section, found := strings.Cut(read(t, "docs/problems.md"), "## Repeat with the same key\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	shown := map[string]bool{}
	for _, row := range codeRow.FindAllStringSubmatch(section, -1) {
		shown[row[1]] = true
	}
	require.Equal(t, repeatable, shown)
}
