// Package report is how the commands of this module tell their figures: headings, prose and tables of Markdown, in a
// marked place of a page that is otherwise written by people.
package report

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Report is the text of a report. Its zero value is empty.
type Report struct{ text strings.Builder }

// Heading adds a heading.
func (r *Report) Heading(text string) { fmt.Fprintf(&r.text, "\n### %s\n", text) }

// Paragraph adds prose, wrapped as it was written.
func (r *Report) Paragraph(format string, args ...any) {
	fmt.Fprintf(&r.text, "\n"+strings.TrimSpace(format)+"\n", args...)
}

// Table adds a table: the first row is its head.
func (r *Report) Table(rows [][]string) {
	r.text.WriteByte('\n')
	for i, row := range rows {
		fmt.Fprintf(&r.text, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			r.text.WriteString("|" + strings.Repeat(" --- |", len(row)) + "\n")
		}
	}
}

// String returns the report.
func (r *Report) String() string { return strings.TrimPrefix(r.text.String(), "\n") }

// Page is a page with a place for a report: between the lines Begins and Ends.
type Page struct {
	Begins, Ends  string
	name          string
	before, after []byte
}

// OpenPage reads a page. by is the command whose report it has, and folder the folder of the command's code. The error
// is that the page cannot be read, or has no such place.
func OpenPage(name, by, folder string) (*Page, error) {
	p := &Page{
		Begins: fmt.Sprintf("<!-- %s: made by %s, do not edit -->\n", by, folder),
		Ends:   fmt.Sprintf("<!-- /%s -->\n", by),
		name:   name,
	}
	old, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	before, rest, ok := bytes.Cut(old, []byte(p.Begins))
	_, after, closed := bytes.Cut(rest, []byte(p.Ends))
	if !ok || !closed {
		return nil, fmt.Errorf("%s has no lines %q and %q to write between", name, p.Begins, p.Ends)
	}
	p.before, p.after = before, after
	return p, nil
}

// Write puts a report in its place.
func (p *Page) Write(text string) error {
	return os.WriteFile(p.name, []byte(string(p.before)+p.Begins+text+p.Ends+string(p.after)), 0o644)
}

// cpuName is the name of a processor where Linux tells it.
var cpuName = regexp.MustCompile(`(?m)^model name\s*: (.*)$`)

// Machine says where and when, as in "1 May 2026, 2 processors (AMD EPYC), linux/amd64, go1.26".
func Machine(when time.Time) string {
	cpu := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if name := cpuName.FindSubmatch(text); name != nil {
			cpu = string(name[1])
		}
	}
	return fmt.Sprintf("%s, %d processors (%s), %s/%s, %s", when.Format("2 January 2006"), runtime.NumCPU(), cpu,
		runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// Ratio is how many times as much one side does as another: in the middle of all rounds (the median), and the bounds of
// the middle half of them.
type Ratio struct{ Middle, Low, High float64 }

// RatioOf compares two sides by what they did in each round. Without a round, all is NaN.
func RatioOf(rounds, toRounds []float64) Ratio {
	each := make([]float64, len(rounds))
	for i := range rounds {
		each[i] = rounds[i] / toRounds[i]
	}
	slices.Sort(each)
	return Ratio{Middle: quantile(each, 0.5), Low: quantile(each, 0.25), High: quantile(each, 0.75)}
}

// quantile is the value below which that part of the sorted values is, with a straight line between two of them.
func quantile(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := part * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}

// String is the ratio with its spread, as in "0.94 (0.90 to 0.99)".
func (r Ratio) String() string { return fmt.Sprintf("%.2f (%.2f to %.2f)", r.Middle, r.Low, r.High) }
