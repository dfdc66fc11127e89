package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/auth19/idem/internal/benchmarks/report"
)

// openPage reads the page that has a place for this report.
func openPage(name string) (*report.Page, error) {
	return report.OpenPage(name, "growth", "internal/benchmarks/growth")
}

// machine says where and when, and what the figures have in common.
func (g *growth) machine(ctx context.Context, d *database) error {
	var server string
	if err := d.ask(ctx, "SHOW server_version", &server); err != nil {
		return err
	}
	server, _, _ = strings.Cut(server, " ")
	g.report.Paragraph(`
%s, for clients and server, PostgreSQL %s, durable commits,
shared_buffers %s, max_wal_size 6 GB, everything else as it comes. %d clients; each figure is of %d turns of %s, and what
is compared takes turns. The command: `+"`go run ./growth -sizes %s -turn %s -day %s`.",
		report.Machine(time.Now()), server, g.memory, g.clients, g.rounds, g.turn,
		strings.Trim(strings.ReplaceAll(fmt.Sprint(g.sizes), " ", ","), "[]"), g.turn, g.day)
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

// decimals writes a number with so many of them.
func decimals(n int) func(float64) string {
	return func(x float64) string { return strconv.FormatFloat(x, 'f', n, 64) }
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ms is a time in milliseconds.
func ms(d time.Duration) string { return decimals(2)(millis(d)) }

// mb is a size in units of 10^6 bytes.
func mb(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/1e6) }
