package dialect_test

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostFacts is how many questions for a fact of a database there may be.
const mostFacts = 12

// What a database is like is asked in few places, and which one it is in none: that is the seam along which another one
// fits in.
func TestSeam(t *testing.T) {
	facts := factsOf(t)
	require.NotEmpty(t, facts)
	var asked, named []string
	files := gotoken.NewFileSet()
	for _, file := range sources(t, "../..") {
		tree, err := parser.ParseFile(files, file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if slices.Contains(facts, n.Sel.Name) {
					asked = append(asked, files.Position(n.Pos()).String()+": "+n.Sel.Name)
				}
			case *ast.Ident:
				if database.MatchString(n.Name) {
					named = append(named, files.Position(n.Pos()).String()+": "+n.Name)
				}
			case *ast.BasicLit: // an import, or a name that is compared
				if database.MatchString(n.Value) && !strings.Contains(n.Value, " ") {
					named = append(named, files.Position(n.Pos()).String()+": "+n.Value)
				}
			}
			return true
		})
	}
	slices.Sort(asked)
	slices.Sort(named)
	require.LessOrEqual(t, len(asked), mostFacts, "questions for facts:\n%s", strings.Join(asked, "\n"))
	require.Empty(t, named, "a database is named:\n%s", strings.Join(named, "\n"))
}

var database = regexp.MustCompile(`(?i)postgres|sqlite|mysql|maria`)

// sources are the files of a module that must not know which database this is.
func sources(t *testing.T, root string) (files []string) {
	t.Helper()
	skipped := []string{
		"internal/dialect",        // the databases
		"internal/txn/dialect.go", // names them
		"internal/sqltext",        // reads a text as its database does
		"idemctl",                 // opens a database of either kind
		"watermillidem",           // another library's, which has a type for each
	}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if slices.Contains(skipped, strings.TrimPrefix(path, root+"/")) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			files = append(files, path)
		}
		return err
	}))
	return files
}

// factsOf are the fields of a Dialect that are true or false.
func factsOf(t *testing.T) (facts []string) {
	t.Helper()
	tree, err := parser.ParseFile(gotoken.NewFileSet(), "dialect.go", nil, 0)
	require.NoError(t, err)
	fields := tree.Scope.Lookup("Dialect").Decl.(*ast.TypeSpec).Type.(*ast.StructType).Fields
	for _, field := range fields.List {
		if of, ok := field.Type.(*ast.Ident); ok && of.Name == "bool" {
			facts = append(facts, field.Names[0].Name)
		}
	}
	return facts
}
