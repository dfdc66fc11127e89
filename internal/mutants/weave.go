package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// which says in the environment of a test which mutant is at work.
const which = "IDEM_MUTANT"

// woven is a test binary with many mutants in it, which are asleep but for one: so a mutant costs no build of its own.
type woven struct {
	dir, binary string
	unbuilt     map[*mutant]string // why it does not build
	alone       map[*mutant]bool   // those that cannot be woven: they change more than the body of a function
}

// weave builds the tests of a package. A function with a mutant gets a twin with the changed body, and begins with a call of
// it if the environment names the mutant. An embedded file is changed when it is read.
func weave(pkg string, all []*mutant) (*woven, error) {
	dir, err := os.MkdirTemp("", "mutants")
	w := &woven{dir: dir, binary: filepath.Join(dir, "test"), unbuilt: map[*mutant]string{}, alone: map[*mutant]bool{}}
	for err == nil {
		f := &files{texts: map[string]string{}, names: map[string]string{}, at: map[*mutant]lines{},
			changed: map[string][]version{}}
		for _, m := range all {
			if w.unbuilt[m] == "" && !w.alone[m] {
				w.alone[m] = !f.add(m)
			}
		}
		var out []byte
		out, err = f.build(dir, "test", "-vet=off", "-ldflags=-s -w", "-c", "-o", w.binary, pkg)
		if err == nil {
			return w, nil
		}
		if !w.blame(all, f, string(out)) {
			return nil, fmt.Errorf("%s: %w\n%s", pkg, err, out)
		}
		err = nil
	}
	return nil, err
}

var complaint = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):\d+: (.*)$`)

// blame finds the mutants that do not build.
func (w *woven) blame(all []*mutant, f *files, out string) (found bool) {
	for _, c := range complaint.FindAllStringSubmatch(out, -1) {
		line, _ := strconv.Atoi(c[2])
		for _, m := range all {
			if at, ok := f.at[m]; ok && at.file == f.names[filepath.Base(c[1])] && at.from <= line && line <= at.to {
				w.unbuilt[m], found = c[3], true
			}
		}
	}
	return found
}

// run runs tests with a mutant.
func (w *woven) run(m *mutant) (out []byte, err error) {
	c := exec.Command(w.binary, "-test.failfast", "-test.timeout=5m", "-test.run="+m.tests)
	c.Dir, c.Env = m.pkg, append(os.Environ(), which+"="+m.id)
	return c.CombinedOutput()
}

// files are what the build sees in place of those of the repository.
type files struct {
	texts   map[string]string
	at      map[*mutant]lines    // of its twin
	changed map[string][]version // by the file that embeds them: the embedded files
	names   map[string]string    // of the repository's files, by those that the build gets
}

type lines struct {
	file     string
	from, to int
}

// version is an embedded file with a mutant.
type version struct{ mutant, file, text string }

func (f *files) text(file string) string {
	if text, ok := f.texts[file]; ok {
		return text
	}
	content, _ := os.ReadFile(file)
	return string(content)
}

// build runs the go command over the files.
func (f *files) build(dir string, args ...string) ([]byte, error) {
	overlay := map[string]string{}
	n := 0
	for file, text := range f.texts {
		n++
		whole, _ := filepath.Abs(file)
		name := strconv.Itoa(n) + filepath.Ext(file)
		overlay[whole], f.names[name] = filepath.Join(dir, name), file
		if err := os.WriteFile(overlay[whole], []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	list, _ := json.Marshal(map[string]any{"Replace": overlay})
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		return nil, err
	}
	return exec.Command("go", slices.Insert(args, 1, "-overlay", file)...).CombinedOutput()
}

// add weaves a mutant in. It returns false where that cannot be.
func (f *files) add(m *mutant) bool {
	texts, ok := m.mutated()
	for file, text := range texts {
		weave := f.twin
		if filepath.Ext(file) != ".go" {
			weave = f.embed
		}
		ok = ok && weave(m, file, text)
	}
	return ok
}

// twin weaves a mutant of a function in.
func (f *files) twin(m *mutant, file, mutated string) bool {
	content, _ := os.ReadFile(file)
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, content, 0)
	if err != nil {
		return false
	}
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	for _, d := range parsed.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		begin, end := offset(fn.Body.Lbrace), offset(fn.Body.Rbrace)
		rest := mutated[min(begin, len(mutated)):]
		if !strings.HasPrefix(mutated, string(content[:begin])) || !strings.HasSuffix(rest, string(content[end:])) {
			continue // it is somewhere else
		}
		call, ok := callOf(fn, m.id)
		if !ok {
			return false
		}
		twin := string(content[offset(fn.Pos()):offset(fn.Name.Pos())]) + fn.Name.Name + "Mutant" + m.id +
			string(content[offset(fn.Name.End()):begin]) + strings.TrimSuffix(rest, string(content[end+1:]))
		head := string(content[offset(fn.Pos()) : begin+1])
		text := strings.Replace(f.text(file), head, head+call, 1)
		line := strings.Count(text, "\n") + 2
		f.texts[file] = text + "\n" + twin + "\n"
		f.at[m] = lines{file, line, line + strings.Count(twin, "\n")}
		f.now(filepath.Dir(file), parsed.Name.Name)
		return true
	}
	return false
}

// callOf calls the twin of a function if its mutant is at work.
func callOf(fn *ast.FuncDecl, id string) (string, bool) {
	var args []string
	for _, p := range fn.Type.Params.List {
		if len(p.Names) == 0 {
			return "", false
		}
		for _, name := range p.Names {
			arg := name.Name
			if _, more := p.Type.(*ast.Ellipsis); more {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	call := fn.Name.Name + "Mutant" + id
	if r := fn.Recv; r != nil {
		if len(r.List[0].Names) == 0 {
			return "", false
		}
		call = r.List[0].Names[0].Name + "." + call
	}
	if t := fn.Type.TypeParams; t != nil {
		var names []string
		for _, p := range t.List {
			for _, name := range p.Names {
				names = append(names, name.Name)
			}
		}
		call += "[" + strings.Join(names, ", ") + "]"
	}
	call += "(" + strings.Join(args, ", ") + ")"
	if fn.Type.Results != nil {
		call = "return " + call
	} else {
		call += "; return"
	}
	return fmt.Sprintf(" if mutantNow == %q { %s }\n", id, call), !slices.Contains(args, "_")
}

// now puts the name of the mutant that is at work into a package.
func (f *files) now(dir, pkg string) {
	file := filepath.Join(dir, "mutant_now.go")
	if f.texts[file] == "" {
		f.texts[file] = "package " + pkg + "\n\nimport \"os\"\n\nvar mutantNow = os.Getenv(\"" + which + "\")\n"
	}
}

var packageOf = regexp.MustCompile(`(?m)^package (\w+)`)

var embedded = regexp.MustCompile(`(?m)^//go:embed (\S+)\nvar (\w+) embed\.FS$`)

// embed weaves a mutant of an embedded file in.
func (f *files) embed(m *mutant, file, mutated string) bool {
	for dir := filepath.Dir(file); dir != "."; dir = filepath.Dir(dir) {
		sources, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, source := range sources {
			text, name := f.text(source), strings.TrimPrefix(file, dir+"/")
			v := embedded.FindStringSubmatch(text)
			if v == nil || !strings.HasPrefix(name, v[1]) {
				continue
			}
			if len(f.changed[source]) == 0 {
				text = strings.Replace(text, v[0], "//go:embed "+v[1]+"\nvar "+v[2]+"Embedded embed.FS\n\nvar "+v[2]+
					" = mutantFS{"+v[2]+"Embedded}", 1)
			}
			f.changed[source] = append(f.changed[source], version{m.id, name, mutated})
			f.texts[source] = text
			pkg := packageOf.FindStringSubmatch(text)[1]
			f.now(dir, pkg)
			f.texts[filepath.Join(dir, "mutant_fs.go")] = fsOf(pkg, f.changed[source])
			return true
		}
	}
	return false
}

// fsOf reads embedded files, changed by the mutant that is at work.
func fsOf(pkg string, changed []version) string {
	var b strings.Builder
	fmt.Fprintf(&b, `package %s

import "embed"

type mutantFS struct{ embed.FS }

func (m mutantFS) ReadFile(name string) ([]byte, error) {
	content, err := m.FS.ReadFile(name)
	for _, v := range []struct{ mutant, file, text string }{
`, pkg)
	for _, v := range changed {
		fmt.Fprintf(&b, "{%q, %q, %q},\n", v.mutant, v.file, v.text)
	}
	b.WriteString(`} {
		if v.mutant == mutantNow && v.file == name {
			return []byte(v.text), err
		}
	}
	return content, err
}
`)
	return b.String()
}
