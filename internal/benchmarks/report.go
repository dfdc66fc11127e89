package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// report is the generated part of docs/performance.md, and the plots beside it.
type report struct {
	text  strings.Builder
	plots map[string][]byte // file -> SVG
}

func (r *report) heading(text string) { fmt.Fprintf(&r.text, "\n### %s\n", text) }

// paragraph adds prose, wrapped as it was written.
func (r *report) paragraph(format string, args ...any) {
	fmt.Fprintf(&r.text, "\n"+strings.TrimSpace(format)+"\n", args...)
}

// table adds a table: the first row is its head.
func (r *report) table(rows [][]string) {
	r.text.WriteByte('\n')
	for i, row := range rows {
		fmt.Fprintf(&r.text, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			r.text.WriteString("|" + strings.Repeat(" --- |", len(row)) + "\n")
		}
	}
}

// plot adds a plot.
func (r *report) plot(file, title string, p linePlot) error {
	svg, err := p.svg(title)
	if err != nil {
		return err
	}
	if r.plots == nil {
		r.plots = make(map[string][]byte)
	}
	r.plots[file] = svg
	fmt.Fprintf(&r.text, "\n![%s](%s/%s)\n", title, plotFolder, file)
	return nil
}

const (
	page       = "performance.md"
	plotFolder = "performance" // beside the page
)

// The report stands between these two lines of the page; what is around them is written by people.
const (
	begins = "<!-- benchmarks: made by internal/benchmarks, do not edit -->\n"
	ends   = "<!-- /benchmarks -->\n"
)

// write puts the report into the page in the folder of documents.
func (r *report) write(docs string) error {
	name := filepath.Join(docs, page)
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte(begins))
	_, after, closed := bytes.Cut(rest, []byte(ends))
	if !ok || !closed {
		return fmt.Errorf("%s has no lines %q and %q to write between", name, begins, ends)
	}
	if err := os.MkdirAll(filepath.Join(docs, plotFolder), 0o755); err != nil {
		return err
	}
	for file, svg := range r.plots {
		if err := os.WriteFile(filepath.Join(docs, plotFolder, file), svg, 0o644); err != nil {
			return err
		}
	}
	text := strings.TrimPrefix(r.text.String(), "\n")
	return os.WriteFile(name, []byte(string(before)+begins+text+ends+string(after)), 0o644)
}
