package main

import (
	"context"
	"strings"
	"time"

	"github.com/auth19/idem/internal/benchmarks/report"
)

// machine describes the machine and the day of the run.
func (x *matrix) machine(when time.Time) error {
	var server, file string
	if err := x.postgres.pool.QueryRowContext(context.Background(), "SHOW server_version").Scan(&server); err != nil {
		return err
	}
	if err := x.sqlite.pool.QueryRowContext(context.Background(), "SELECT sqlite_version()").Scan(&file); err != nil {
		return err
	}
	server, _, _ = strings.Cut(server, " ")
	x.report.head.Paragraph(`
%s, PostgreSQL %s, SQLite %s; durable commits,
bodies of %d bytes. Each figure: %s in %d turns, in brackets the worst and the best.`,
		report.Machine(when), server, file, smallBody, x.duration, x.rounds)
	return nil
}
