//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestVerdict(t *testing.T) {
	for what, change := range map[string]func(r *result){
		"1 commands were booked more than once":                   func(r *result) { r.first.doubled = 1 },
		"2 commands were booked more than once after the repeats": func(r *result) { r.second.doubled = 2 },
		"1 refunds were paid more than once":                      func(r *result) { r.first.overpaid = 1 },
		"1 refunds were paid more than once after the repeats":    func(r *result) { r.second.overpaid = 1 },
		"1 entries belong to no command":                          func(r *result) { r.first.stray = 1 },
		"1 commands were lost, and their repeats":                 func(r *result) { r.second.lost = 1 },
		"1 commands were not answered\nno answer to the first of them": func(r *result) {
			r.unanswered = []error{errors.New("no answer to the first of them")}
		},
	} {
		for _, mode := range []string{modeSync, modeAsync} {
			r := result{options: options{mode: mode}}
			require.NoError(t, r.verdict())
			change(&r)
			require.ErrorContains(t, r.verdict(), what)
		}
	}
	for what, change := range map[string]func(r *result){
		"3 acknowledged commands were lost":   func(r *result) { r.first.lost = 3 },
		"1 refunds were paid, and not booked": func(r *result) { r.first.unbooked = 1 },
		"3 repeats got another answer":        func(r *result) { r.others = 3 },
	} {
		r := result{options: options{mode: modeSync}}
		change(&r)
		require.ErrorContains(t, r.verdict(), what)
		r.options.mode = modeAsync
		require.NoError(t, r.verdict(), "that is what F-2 says of asynchronous replication")
	}
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	r := result{
		options: options{mode: modeAsync, pgbouncer: true, kills: 5, duration: time.Minute, seed: 42},
		date:    time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), intents: 1001, acknowledged: 1000, failovers: 5,
		outage: 22_840 * time.Millisecond, first: counts{entries: 997, lost: 3}, second: counts{entries: 1000},
	}
	require.NoError(t, r.print(&out))
	require.Contains(t, out.String(), "2026-11-21  -mode async -pgbouncer -kills 5 -duration 1m0s -seed 42\n")
	rows := map[string]string{}
	for l := range strings.Lines(out.String()) {
		if fields := strings.Fields(l); len(fields) > 1 {
			rows[strings.Join(fields[:len(fields)-1], " ")] = fields[len(fields)-1]
		}
	}
	for name, want := range map[string]string{
		"intents": "1001", "acknowledged": "1000", "failovers": "5", "longest time without an answer": "22.8s",
		"ledger entries": "997", "acknowledged, and lost": "3", "then: ledger entries": "1000", "lost": "0",
	} {
		require.Equal(t, want, rows[name], name)
	}
}
