// Command mutants changes the library in one place at a time, and runs the tests that must see it: the list of hand-made
// mutants, in list/. It prints for each mutant whether it was killed, has survived or does not apply any more, and fails if
// one has survived. Nothing in the repository is changed: the go command gets the mutated file by -overlay.
//
//	go run ./internal/mutants            all of them, for an hour or two
//	go run ./internal/mutants -only X-2  those whose line, file or package has this in it
//	go run ./internal/mutants -apply     whether the texts are still there
//	go run ./internal/mutants -page      writes docs/contributors/mutants.md
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
	id           string
	rule, what   string
	file, behind string // where: the first place behind this text
	old, text    []string
	pkg, tests   string // tests is a pattern of go test -run; "": all of the package
	survives     string // why it may
}

func main() {
	only := flag.String("only", "", "takes those whose line, file or package has this in it")
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
		content, _ := os.ReadFile(m.file)
		_, _, there := m.place(string(content))
		switch {
		case !strings.Contains(m.line()+" "+m.file+" "+m.pkg, *only):
		case !there:
			say(m, "does not apply", m.file)
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
			fmt.Println(which+"="+m.id, w.binary, m.line(), w.broken[m])
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

// read reads the lists. A mutant begins with "= rule: what", then come "in file", perhaps "behind text", the lines to take away
// with "- ", those to put there with "+ ", and "by package tests", perhaps "survives why".
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
				m = &mutant{id: strconv.Itoa(len(all) + 1)}
				m.rule, m.what, _ = strings.Cut(rest, ": ")
				all = append(all, m)
				continue
			}
			switch {
			case word == "" || word == "#":
			case word == "in":
				m.file = rest
			case word == "behind":
				m.behind = rest
			case word == "-":
				m.old = append(m.old, rest)
			case word == "+":
				m.text = append(m.text, rest)
			case word == "by":
				m.pkg, m.tests, _ = strings.Cut(rest, " ")
			case word == "survives":
				m.survives = rest
			default:
				return nil, fmt.Errorf("%s:%d: %q", file, n+1, line)
			}
		}
	}
	return all, err
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^panic: test timed out`)

// place is where the change is made.
func (m *mutant) place(content string) (from, to int, there bool) {
	behind, old := strings.Index(content, m.behind), strings.Join(m.old, "\n")
	if behind < 0 || old == "" {
		return 0, 0, false
	}
	behind += len(m.behind)
	at := strings.Index(content[behind:], old)
	return behind + at, behind + at + len(old), at >= 0
}

func (m *mutant) replacement() string { return strings.Join(m.text, "\n") }

// try runs the tests of a mutant. It returns what became of it, and the last test that has failed.
func (w *woven) try(m *mutant) (became, why string) {
	if why := w.broken[m]; why != "" {
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
	content, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	from, to, _ := m.place(string(content))
	f := &files{texts: map[string]string{m.file: string(content[:from]) + m.replacement() + string(content[to:])}, names: map[string]string{}}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return f.build(dir, "test", "-vet=off", "-count=1", "-failfast", "-timeout=5m", "-ldflags=-s -w", "-run", m.tests, m.pkg)
}

const head = `<!-- made by go run ./internal/mutants -page from internal/mutants/list -->
# Mutants made by hand

Each line is one change of the library that a rule forbids, and the tests that must fail with it. They are made as an attacker
would: at the lines that decide about money. Make them again after a change of the engine, the core or the client:
` + "`go run ./internal/mutants`" + ` changes one place after the other with ` + "`go test -overlay`" + `, and says which one nobody has
noticed; ` + "`-only X-2`" + ` takes some of them. A text that is not there any more is said, too: make the mutant again by its rule.

| rule | mutant | where | what kills it |
| --- | --- | --- | --- |
`

// text is the page.
func text(all []*mutant) string {
	var b strings.Builder
	b.WriteString(head)
	for _, m := range all {
		by := "`" + m.pkg + "` " + strings.ReplaceAll(m.tests, "|", ", ")
		if m.survives != "" {
			by = "nothing: " + m.survives
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s |\n", m.rule, m.what, m.file, by)
	}
	fmt.Fprintf(&b, "\n%d mutants.\n", len(all))
	return b.String()
}
