package invariants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// proof is a test, or a part of one, that names rules.
type proof struct {
	file  string // slash-separated, from the root of the module
	name  string // TestX, TestX/subtest, or a function of a suite
	rules []string
}

// found is what is written about rules in a tree of Go files.
type found struct {
	proofs []proof
	// suites are the packages outside _test.go files that hold proofs, and the packages whose tests run them.
	suites map[string][]string
}

// find reads all Go files of a module. It skips folders whose name begins with a dot, and testdata.
func find(module string, root fs.FS) (found, error) {
	f := found{suites: map[string][]string{}}
	importers := map[string][]string{} // of each package of the module, the packages whose tests import it
	err := fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && (name[0] == '.' || name == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		source, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, file, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		proofs, err := proofsIn(files, parsed, file)
		if err != nil {
			return err
		}
		f.proofs = append(f.proofs, proofs...)
		test := strings.HasSuffix(file, "_test.go")
		if len(proofs) > 0 && !test {
			f.suites[path.Dir(file)] = nil
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if in, ok := strings.CutPrefix(imported, module+"/"); ok && test {
				importers[in] = append(importers[in], path.Dir(file))
			}
		}
		return nil
	})
	for suite := range f.suites {
		f.suites[suite] = slices.Compact(slices.Sorted(slices.Values(importers[suite])))
	}
	return f, err
}

// unproven lists the suites that no test runs.
func (f found) unproven() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for suite, by := range maps.All(f.suites) {
			if len(by) == 0 && !yield(suite) {
				return
			}
		}
	})
}

// mark begins a comment that names rules.
const mark = "// CONTRACT "

// proofsIn finds the comments of one file and what each stands above.
func proofsIn(files *token.FileSet, file *ast.File, name string) (proofs []proof, err error) {
	for _, group := range file.Comments {
		var rules []string
		for _, comment := range group.List {
			if ids, ok := strings.CutPrefix(comment.Text, mark); ok {
				rules = append(rules, strings.Split(ids, ", ")...)
			}
		}
		if rules == nil {
			continue
		}
		below := subject(files, file, group)
		if below == "" {
			return nil, fmt.Errorf("%v: this comment stands neither above a function nor in one", files.Position(group.Pos()))
		}
		proofs = append(proofs, proof{file: name, name: below, rules: rules})
	}
	return proofs, nil
}

// subject names the function that a comment stands above or in, and the subtest that begins on the next line.
func subject(files *token.FileSet, file *ast.File, comment *ast.CommentGroup) string {
	for _, decl := range file.Decls {
		function, ok := decl.(*ast.FuncDecl)
		switch {
		case !ok:
		case function.Doc == comment:
			return function.Name.Name
		case function.Pos() < comment.Pos() && comment.End() < function.End():
			if subtest := subtestAt(files, function, files.Position(comment.End()).Line+1); subtest != "" {
				return function.Name.Name + "/" + subtest
			}
			return function.Name.Name
		}
	}
	return ""
}

// subtestAt returns the name of the t.Run that begins on a line, where the name is a constant; else "".
func subtestAt(files *token.FileSet, function *ast.FuncDecl, line int) (name string) {
	ast.Inspect(function, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || files.Position(call.Pos()).Line != line || len(call.Args) != 2 {
			return true
		}
		method, isMethod := call.Fun.(*ast.SelectorExpr)
		text, isText := call.Args[0].(*ast.BasicLit)
		if isMethod && isText && method.Sel.Name == "Run" && text.Kind == token.STRING {
			name, _ = strconv.Unquote(text.Value)
		}
		return true
	})
	return name
}
