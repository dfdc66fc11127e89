package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// report is the generated part of docs/scaling.md.
type report struct{ text strings.Builder }

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
			r.text.WriteString("| --- |" + strings.Repeat(" ---: |", len(row)-1) + "\n")
		}
	}
}

// The report stands between these two lines of the page; what is around them is written by people.
const (
	begins = "<!-- growth: made by internal/benchmarks/growth, do not edit -->\n"
	ends   = "<!-- /growth -->\n"
)

// page is a document with a place for the report.
type page struct {
	name          string
	before, after []byte
}

// openPage reads a page. The error is that it has no place for a report.
func openPage(name string) (*page, error) {
	old, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	before, rest, ok := bytes.Cut(old, []byte(begins))
	_, after, closed := bytes.Cut(rest, []byte(ends))
	if !ok || !closed {
		return nil, fmt.Errorf("%s has no lines %q and %q to write between", name, begins, ends)
	}
	return &page{name, before, after}, nil
}

// write puts a report into the page.
func (p *page) write(text string) error {
	text = string(p.before) + begins + strings.TrimPrefix(text, "\n") + ends + string(p.after)
	return os.WriteFile(p.name, []byte(text), 0o644)
}

// cpuName is the name of a processor where Linux tells it.
var cpuName = regexp.MustCompile(`(?m)^model name\s*: (.*)$`)

// machine says where and when, and what the figures have in common.
func (g *growth) machine(ctx context.Context, d *database) error {
	cpu := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if name := cpuName.FindSubmatch(text); name != nil {
			cpu = string(name[1])
		}
	}
	var server string
	if err := d.ask(ctx, "SHOW server_version", &server); err != nil {
		return err
	}
	server, _, _ = strings.Cut(server, " ")
	g.report.paragraph(`
%s, %d processors (%s) for clients and server, %s/%s, %s, PostgreSQL %s, durable commits,
shared_buffers %s, max_wal_size 6 GB, everything else as it comes. %d clients; each figure is of %d turns of %s, and what
is compared takes turns. The command: `+"`go run ./growth -sizes %s -turn %s -day %s`.",
		time.Now().Format("2 January 2006"), runtime.NumCPU(), cpu, runtime.GOOS, runtime.GOARCH, runtime.Version(), server,
		g.memory, g.clients, g.rounds, g.turn, strings.Trim(strings.ReplaceAll(fmt.Sprint(g.sizes), " ", ","), "[]"), g.turn,
		g.day)
	return nil
}

// count is a number with its thousands apart.
func count[N int | int64 | float64](n N) string {
	digits := fmt.Sprintf("%.0f", float64(n))
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// ms is a time in milliseconds.
func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }

// mb is a size in units of 10^6 bytes.
func mb(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/1e6) }
