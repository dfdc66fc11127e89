package invariants

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// check returns everything that is wrong with the proofs: rules without one, comments that name no rule, suites that
// nobody runs.
func check(f found) (wrong []string) {
	proven := byRule(f)
	for _, c := range contract {
		for _, r := range c.rules {
			if r.notBuilt == "" && proven[r.id] == nil {
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

The rules of the contract, and the tests that prove each. A test names its rules in a comment above it
(` + "`" + mark + `K-3` + "`" + `). This page is made of those comments; do not edit it:

    go test ./internal/invariants -update

A test of that package fails where a rule has no test and where this page is out of date.

`

// render makes docs/invariants.md.
func render(f found) []byte {
	var b bytes.Buffer
	b.WriteString(head)
	if len(f.suites) > 0 {
		b.WriteString("Some tests are suites, run by the tests of several packages:\n\n")
	}
	for _, suite := range slices.Sorted(maps.Keys(f.suites)) {
		fmt.Fprintf(&b, "- `%s` by `%s`\n", suite, strings.Join(f.suites[suite], "`, `"))
	}
	proven := byRule(f)
	var notBuilt []rule
	for _, c := range contract {
		titled := false
		for _, r := range c.rules {
			if r.notBuilt != "" {
				notBuilt = append(notBuilt, r)
				continue
			}
			if !titled {
				fmt.Fprintf(&b, "\n## %s\n", c.title)
				titled = true
			}
			fmt.Fprintf(&b, "\n**%s** %s\n\n", r.id, r.says)
			writeProofs(&b, proven[r.id])
		}
	}
	b.WriteString("\n## Not built yet\n")
	for _, r := range notBuilt {
		fmt.Fprintf(&b, "\n**%s** %s *Not built:* %s\n", r.id, r.says, r.notBuilt)
		if proven[r.id] != nil {
			b.WriteString("\nTests of the part that is there:\n\n")
			writeProofs(&b, proven[r.id])
		}
	}
	return b.Bytes()
}

// writeProofs writes a line for each file, with its tests.
func writeProofs(b *bytes.Buffer, proofs []proof) {
	names := map[string][]string{}
	for _, p := range proofs {
		names[p.file] = append(names[p.file], p.name)
	}
	for _, file := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(b, "- [%s](../%s): `%s`\n", file, file, strings.Join(slices.Compact(names[file]), "`, `"))
	}
	if len(proofs) == 0 {
		b.WriteString("- no test\n")
	}
}
