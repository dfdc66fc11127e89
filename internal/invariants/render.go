package invariants

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// check returns everything that is wrong with the proofs: rules without one, comments that name no rule, suites that
// nobody runs.
func check(f found) (wrong []string) {
	proven := byRule(f)
	for _, c := range contract {
		for _, r := range c.rules {
			if proven[r.id] == nil {
				wrong = append(wrong, r.id+" has no test: "+r.says)
			}
			delete(proven, r.id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(proven)) {
		p := proven[id][0]
		wrong = append(wrong, fmt.Sprintf("%s: %s: %q is no rule; write %sK-2, K-3", p.file, p.name, id, mark))
	}
	for _, suite := range f.unproven() {
		wrong = append(wrong, suite+" names rules, but no test runs it")
	}
	return wrong
}

func byRule(f found) map[string][]proof {
	proven := map[string][]proof{}
	for _, p := range f.proofs {
		for _, id := range p.rules {
			proven[id] = append(proven[id], p)
		}
	}
	return proven
}

const head = `# Invariants

The rules of the contract. Below each rule are the tests that prove it, by folder:
` + "`go test ./core -run TestX`" + `. A test names its rules in a comment above it
(` + "`" + mark + `K-3` + "`" + `), and this page is made of those comments; do not edit it:

    go test ./internal/invariants -update

A test of that package fails where a rule has no test and where this page is out of date.

`

// render makes docs/contributors/invariants.md.
func render(f found) []byte {
	var b bytes.Buffer
	b.WriteString(head)
	if len(f.suites) > 0 {
		b.WriteString("Some folders are suites, run by the tests of others:\n\n")
	}
	for _, suite := range slices.Sorted(maps.Keys(f.suites)) {
		fmt.Fprintf(&b, "- `%s` by `%s`\n", suite, strings.Join(f.suites[suite], "`, `"))
	}
	proven := byRule(f)
	for _, c := range contract {
		fmt.Fprintf(&b, "\n## %s\n", c.title)
		for _, r := range c.rules {
			fmt.Fprintf(&b, "\n**%s** %s\n", r.id, r.says)
			fmt.Fprintf(&b, "- %s\n", inFolders(proven[r.id]))
		}
	}
	return b.Bytes()
}

// inFolders names the tests, each folder with its own.
func inFolders(proofs []proof) string {
	names := map[string][]string{}
	for _, p := range proofs {
		folder := path.Dir(p.file)
		names[folder] = append(names[folder], p.name)
	}
	var parts []string
	for _, folder := range slices.Sorted(maps.Keys(names)) {
		tests := slices.Compact(slices.Sorted(slices.Values(names[folder])))
		parts = append(parts, "`"+folder+"` "+strings.Join(tests, ", "))
	}
	return strings.Join(parts, "; ")
}
