package readme

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The adapters are twins: the files that two of them have in common have their common functions in the same order.
func TestAdaptersAreTwins(t *testing.T) {
	first := functionsOf(t, "ginidem")
	for twin, own := range map[string]struct {
		files     []string // that it alone has
		without   []string // files of ginidem that it does not have
		exports   []string // what it alone exports
		exportsNo []string // what ginidem exports and it does not
	}{
		// Gin has no error handler of its own, and Echo does not show its routes' chains.
		"echoidem":    {exports: []string{"TrackRoutes"}, exportsNo: []string{"Option", "WithErrorRenderer"}},
		"echoidem/v5": {exports: []string{"TrackRoutes"}, exportsNo: []string{"Option", "WithErrorRenderer"}},
		// net/http has no writer of its own, and its mux does not show its routes.
		"core/httpidem": {files: []string{"router.go"}, without: []string{"writer.go"},
			exports: []string{"Behind", "ChainOf", "Middleware", "NewRouter", "Router"}, exportsNo: []string{"Option", "WithErrorRenderer"}},
	} {
		t.Run(twin, func(t *testing.T) {
			second := functionsOf(t, twin)
			require.ElementsMatch(t, own.without, without(files(first), files(second)))
			require.ElementsMatch(t, own.files, without(files(second), files(first)))
			for file, functions := range first {
				require.Equal(t, strings.Join(common(functions, second[file]), " "), strings.Join(common(second[file], functions), " "), file)
			}
			require.Equal(t, own.exportsNo, without(exported(t, "ginidem"), exported(t, twin)))
			require.Equal(t, own.exports, without(exported(t, twin), exported(t, "ginidem")))
		})
	}
}

func files(functions map[string][]string) []string { return slices.Collect(maps.Keys(functions)) }

// declarations calls fn with the declarations of each file of a package that is not a test.
func declarations(t *testing.T, folder string, fn func(file string, declaration ast.Decl)) {
	t.Helper()
	files, err := fs.Glob(root, folder+"/*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), parser.SkipObjectResolution)
		require.NoError(t, err)
		fn(strings.TrimPrefix(file, folder+"/"), nil) // a file without any is a file, too
		for _, declaration := range parsed.Decls {
			fn(strings.TrimPrefix(file, folder+"/"), declaration)
		}
	}
}

// functionsOf returns the functions of a package, without methods, by their files and in their order.
func functionsOf(t *testing.T, folder string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	declarations(t, folder, func(file string, declaration ast.Decl) {
		if declaration == nil {
			found[file] = nil
		}
		if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil {
			found[file] = append(found[file], f.Name.Name)
		}
	})
	return found
}

// exported returns the exported functions and types of a package.
func exported(t *testing.T, folder string) (names []string) {
	t.Helper()
	declarations(t, folder, func(_ string, declaration ast.Decl) {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() {
					names = append(names, s.Name.Name)
				}
			}
		}
	})
	slices.Sort(names)
	return names
}

// common returns the names that are in others too.
func common(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(others, name) })
}

// without returns the names that are not in others.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

// Every app that mounts the pages mounts each path that changes something: one that is left out is a page whose button fails.
func TestExamplesMountEveryPage(t *testing.T) {
	posts := regexp.MustCompile(`"POST ([a-z][^"]*)"`).FindAllStringSubmatch(read(t, "core/inspect/handler.go"), -1)
	require.NotEmpty(t, posts)
	for _, app := range []string{"gin/main.go", "echo/main.go", "internal/ginapi/ginapi.go", "internal/app/inspector.go"} {
		for _, post := range posts {
			path := "/idem/" + strings.ReplaceAll(post[1], "{id}", ":id") + `"`
			if !strings.Contains(read(t, "examples/"+app), path) {
				t.Errorf("examples/%s does not mount %s", app, path)
			}
		}
	}
}
