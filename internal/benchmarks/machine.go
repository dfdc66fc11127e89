package main

import (
	"context"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// cpuName is the name of a processor where Linux tells it.
var cpuName = regexp.MustCompile(`(?m)^model name\s*: (.*)$`)

// machine says where and when.
func (x *matrix) machine(when time.Time) error {
	cpu := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if name := cpuName.FindSubmatch(text); name != nil {
			cpu = string(name[1])
		}
	}
	var server, file string
	if err := x.postgres.pool.QueryRowContext(context.Background(), "SHOW server_version").Scan(&server); err != nil {
		return err
	}
	if err := x.sqlite.pool.QueryRowContext(context.Background(), "SELECT sqlite_version()").Scan(&file); err != nil {
		return err
	}
	server, _, _ = strings.Cut(server, " ")
	x.report.paragraph(`
%s, %d processors (%s), %s/%s, %s, PostgreSQL %s (its own defaults, durable commits), SQLite %s (WAL, synchronous=full).
Each figure: %s in %d turns. Ratios are those of the whole, in brackets the worst and the best turn.`,
		when.Format("2 January 2006"), runtime.NumCPU(), cpu, runtime.GOOS, runtime.GOARCH, runtime.Version(), server, file,
		x.duration, x.rounds)
	return nil
}
