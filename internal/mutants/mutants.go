// Command mutants changes the library in one place at a time, and runs the tests that must see it: the list of hand-made
// mutants, in list/. It prints for each whether it was killed, has survived, or does not apply any more, and fails unless
// all are killed. Nothing in the repository is changed: the go command gets other files by -overlay. The tests of a package
// are built once, with all of its mutants in them: see weave.go.
//
//	go run ./internal/mutants            all of them
//	go run ./internal/mutants -only X-2  those whose line, file or package has this in it
//	go run ./internal/mutants -apply     whether the texts are still there
//	go run ./internal/mutants -page      writes docs/contributors/mutants.md
//	go run ./internal/mutants -weave ./internal/generator
package main

import (
	"embed"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed list
var lists embed.FS

// mutant is a change of one place, and what must see it.
type mutant struct {
	id         string
	rule, what string
	files      []string
	edits      map[string][]edit // by file
	pkg, tests string            // tests is a pattern of go test -run; "": all of the package
	survives   string            // why it may
}

// edit is a change of a file: the first old lines behind a text become others.
type edit struct {
	behind    string
	old, text []string
}

func main() {
	only := flag.String("only", "", "takes those whose line, file or package has this in it, or this|or this")
	apply := flag.Bool("apply", false, "says only whether the texts are there")
	page := flag.Bool("page", false, "writes docs/contributors/mutants.md")
	into := flag.String("weave", "", "builds the tests of this package with all of them, and says how to run them")
	flag.Parse()
	all, err := read()
	if err == nil && *page {
		err = os.WriteFile("docs/contributors/mutants.md", []byte(text(all)), 0o600)
	}
	if err != nil || *page {
		exit(err)
	}
	counts := map[string]int{}
	say := func(m *mutant, became, why string) {
		counts[became]++
		fmt.Printf("%-14s %s  %s\n", became, m.line(), why)
	}
	byPackage := map[string][]*mutant{}
	for _, m := range all {
		_, there := m.mutated()
		switch {
		case !slices.ContainsFunc(strings.Split(*only, "|"), func(part string) bool {
			return strings.Contains(m.line()+" "+strings.Join(m.files, " ")+" "+m.pkg, part)
		}):
		case !there:
			say(m, "does not apply", m.files[0])
		case *apply:
			say(m, "applies", "")
		default:
			byPackage[m.pkg] = append(byPackage[m.pkg], m)
		}
	}
	if *into != "" {
		w, err := weave(*into, slices.Concat(slices.Collect(maps.Values(byPackage))...))
		if err != nil {
			exit(err)
		}
		for _, m := range all {
			fmt.Println(which+"="+m.id, w.binary, m.line(), w.unbuilt[m])
		}
		exit(nil)
	}
	for _, pkg := range slices.Sorted(maps.Keys(byPackage)) {
		w, err := weave(pkg, byPackage[pkg])
		if err != nil {
			exit(err)
		}
		for _, m := range byPackage[pkg] {
			became, why := w.try(m)
			say(m, became, why)
		}
		_ = os.RemoveAll(w.dir)
	}
	fmt.Println(counts)
	if counts["survived"]+counts["does not apply"]+counts["does not build"] > 0 {
		os.Exit(1)
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (m *mutant) line() string { return m.rule + ": " + m.what }

// read reads the lists. A mutant begins with "= rule: what". Then come "in file", perhaps "behind text", the lines to take
// away with "- ", those to put there with "+ " (all of these again for another place), "by package tests", and perhaps
// "survives why".
func read() (all []*mutant, err error) {
	files, err := fs.Glob(lists, "list/*.txt")
	for _, file := range files {
		content, err := lists.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var m *mutant
		for n, line := range strings.Split(string(content), "\n") {
			word, rest, _ := strings.Cut(line, " ")
			if word == "=" {
				m = &mutant{id: strconv.Itoa(len(all) + 1), edits: map[string][]edit{}}
				m.rule, m.what, _ = strings.Cut(rest, ": ")
				all = append(all, m)
				continue
			}
			switch word {
			case "", "#":
			case "in":
				m.files = append(m.files, rest)
			case "behind", "-", "+":
				m.change(word, rest)
			case "by":
				m.pkg, m.tests, _ = strings.Cut(rest, " ")
			case "survives":
				m.survives = rest
			default:
				return nil, fmt.Errorf("%s:%d: %q", file, n+1, line)
			}
		}
	}
	return all, err
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^panic: test timed out`)

// change takes a line of an edit. One that follows the new text begins the next edit.
func (m *mutant) change(word, line string) {
	file := m.files[len(m.files)-1]
	edits := m.edits[file]
	if n := len(edits); n == 0 || edits[n-1].text != nil && word != "+" {
		edits = append(edits, edit{})
	}
	switch e := &edits[len(edits)-1]; word {
	case "behind":
		e.behind = line
	case "-":
		e.old = append(e.old, line)
	default:
		e.text = append(e.text, line)
	}
	m.edits[file] = edits
}

// mutated are the files with the mutant.
func (m *mutant) mutated() (texts map[string]string, there bool) {
	texts = map[string]string{}
	for file, edits := range m.edits {
		text, _ := os.ReadFile(file)
		content := string(text)
		for _, e := range edits {
			before, rest, behind := strings.Cut(content, e.behind)
			head, tail, there := strings.Cut(rest, strings.Join(e.old, "\n"))
			if !behind || !there {
				return nil, false
			}
			content = before + e.behind + head + strings.Join(e.text, "\n") + tail
		}
		texts[file] = content
	}
	return texts, true
}

// try runs the tests of a mutant. It returns what became of it, and the last test that has failed.
func (w *woven) try(m *mutant) (became, why string) {
	if why := w.unbuilt[m]; why != "" {
		return "does not build", why
	}
	run := func() ([]byte, error) { return w.run(m) }
	if w.alone[m] {
		run = m.runAlone
	}
	begun := time.Now()
	out, err := run()
	took := time.Since(begun).Round(time.Second).String()
	all := failed.FindAllStringSubmatch(string(out), -1)
	switch {
	case err == nil && strings.Contains(string(out), "no tests to run"):
		return "does not build", "no such test"
	case err == nil && m.survives != "":
		return "survived as said", m.survives
	case err == nil:
		return "survived", took
	case len(all) == 0 && w.alone[m]:
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return "does not build", strings.Join(lines[:min(3, len(lines))], " | ")
	case len(all) == 0:
		return "killed", "the process has ended: " + took
	}
	return "killed", all[len(all)-1][1] + " " + took
}

// runAlone builds the tests with one mutant.
func (m *mutant) runAlone() ([]byte, error) {
	texts, _ := m.mutated()
	f := &files{texts: texts, names: map[string]string{}}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return f.build(dir, "test", "-vet=off", "-count=1", "-failfast", "-timeout=5m", "-ldflags=-s -w", "-run", m.tests, m.pkg)
}

const head = `<!-- made by go run ./internal/mutants -page from internal/mutants/list -->
# Mutants made by hand

A mutant is one change of the library that a rule forbids, and the tests that must fail with it. They are made as an
attacker would: at the lines that decide about money. The lists have them in full:
[client](../../internal/mutants/list/client.txt), [core](../../internal/mutants/list/core.txt),
[engine](../../internal/mutants/list/engine.txt). Make them again after a change of the engine, the core or the client:
` + "`go run ./internal/mutants`" + ` builds the tests of a package once with all of its mutants, lets one after the
other be at work, and says which one nobody has noticed; ` + "`-only X-2`" + ` takes some of them. Where a text is not
there any more, it says so: make the mutant again by its rule. ` + "`-weave ./internal/generator`" + ` says how to
try the generator on them.

| rule | mutants | killed by tests of |
| --- | --- | --- |
`

// text is the page: a line for each rule.
func text(all []*mutant) string {
	var b strings.Builder
	b.WriteString(head)
	of, by := map[string]int{}, map[string][]string{}
	for _, m := range all {
		of[m.rule]++
		if pkg := "`" + m.pkg + "`"; m.survives == "" && !slices.Contains(by[m.rule], pkg) {
			by[m.rule] = append(by[m.rule], pkg)
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&b, "| %s | %d | %s |\n", rule, of[rule], strings.Join(by[rule], ", "))
	}
	b.WriteString("\nThese survive, because a second line of defence stops what they let through:\n\n")
	for _, m := range all {
		if m.survives != "" {
			fmt.Fprintf(&b, "- %s: %s.\n", m.line(), m.survives)
		}
	}
	fmt.Fprintf(&b, "\n%d mutants.\n", len(all))
	return b.String()
}
