package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/auth19/idem/internal/benchmarks/report"
)

// figures is the generated part of docs/performance.md, and the plots beside it.
type figures struct {
	report.Report                   // of the part that is measured
	head          report.Report     // what comes before the parts
	parts         strings.Builder   // those that are done
	plots         map[string][]byte // file -> SVG
}

// plotFolder is where the plots are, beside the page.
const plotFolder = "performance"

// openPage reads performance.md in the folder of documents.
func openPage(docs string) (*report.Page, error) {
	return report.OpenPage(filepath.Join(docs, "performance.md"), "benchmarks", "internal/benchmarks")
}

// String returns the head and the parts.
func (f *figures) String() string { return f.head.String() + f.parts.String() }

// next ends a part. It stays in the report where keep says so.
func (f *figures) next(keep bool) {
	if keep {
		f.parts.WriteString("\n" + f.Report.String())
	}
	f.Report = report.Report{}
}

// plot adds a plot.
func (f *figures) plot(file, title string, p linePlot) error {
	svg, err := p.svg(title)
	if err != nil {
		return err
	}
	if f.plots == nil {
		f.plots = make(map[string][]byte)
	}
	f.plots[file] = svg
	f.Paragraph("![%s](%s/%s)", title, plotFolder, file)
	return nil
}

// write puts the report into its page, and the plots into their folder in the folder of documents.
func (f *figures) write(page *report.Page, docs string) error {
	if err := os.MkdirAll(filepath.Join(docs, plotFolder), 0o755); err != nil {
		return err
	}
	for file, svg := range f.plots {
		if err := os.WriteFile(filepath.Join(docs, plotFolder, file), svg, 0o644); err != nil {
			return fmt.Errorf("plot: %w", err)
		}
	}
	return page.Write(f.String())
}
