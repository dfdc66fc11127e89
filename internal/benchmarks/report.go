package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/auth19/idem/internal/benchmarks/report"
)

// outcome is what a run has found.
type outcome struct {
	here, away, inFile figures
	counts             map[string]counts
}

// tell writes the report.
func (b *benchmark) tell(o outcome) string {
	var r report.Report
	r.Paragraph(`
%s, PostgreSQL %s and SQLite as they
come, durable commits, bodies of %d bytes. %d clients in one process send without a pause, through core and gormstore
without an option, over a pool of %d connections. All ways took turns in one run, %d each of %v. A ratio is that of the
middle turn; in brackets the middle half.`,
		report.Machine(time.Now()), b.server, len(payload), b.clients, connections, b.rounds, b.turn)

	took := slices.Sorted(slices.Values(o.away.of(inSQL, bare).each(func(t turn) float64 { return float64(t.middle) })))
	void := o.away.dropVoid()

	r.Heading("Beside the same command without this library")
	r.Table(o.ratios())
	r.Paragraph(`
Bare: BEGIN, INSERT a row, COMMIT. By hand: INSERT the key ON CONFLICT DO NOTHING, the row, UPDATE the answer, in one
transaction; `+"beside `Park`"+` without row and transaction. A peer: the key is committed alone; row and answer in a second
transaction. A plain SELECT reads status, headers and body; replays are of keys that the instance has seen. Between two
bare transactions, as in `+"`Resume`"+`, is a call that takes no time. Both sides write their rows with database/sql, or with
GORM. A Gin app has an identity without a token, and writes its row with GORM. Two aims are of an Intel Xeon and of an AMD
EPYC. At 1 ms, %d clients send through a proxy; the bare transaction, three round trips, took %v there (p50). A turn in
which it takes more than %v is void: %d of %d. On SQLite one client sends.`,
		linkClients, middle(took), linkLimit, void, b.rounds)

	r.Heading("What does not depend on the machine")
	r.Table(o.perCommand())

	r.Heading("Each way")
	r.Table(o.ways())
	r.Paragraph(`
Commands per second; in brackets the processor time of a command in µs, app + PostgreSQL.`)
	return r.String()
}

// dropVoid leaves out the turns in which the link was slower than it says, and returns how many.
func (f figures) dropVoid() (void int) {
	var good []int
	for round, t := range f.of(inSQL, bare).turns {
		if t.middle < linkLimit {
			good = append(good, round)
		} else {
			void++
		}
	}
	f.keep(good)
	return void
}

func middle(sorted []float64) time.Duration {
	return time.Duration(sorted[len(sorted)/2]).Round(10 * time.Microsecond)
}

// variants are the columns of the tables.
var variants = []string{inSQL, inGORM}

// ratios compares the ways of the library with those that they could replace.
func (o outcome) ratios() [][]string {
	rows := [][]string{slices.Concat([]string{"of", "over"}, variants, []string{"aim"})}
	for _, c := range []struct {
		figures  figures
		where    string
		of, over way
		figure   func(turn) float64
		aim      string
	}{
		{o.here, "", rollback, oneTransaction, turn.rate, "0.77; 0.83"},
		{o.here, "", rollback, bare, turn.rate, ""},
		{o.here, "", ginRollback, ginBare, turn.rate, ""},
		{o.here, "", rollback, claimFirst, turn.rate, "0.95; 1.1"},
		{o.here, "", park, twoStatements, turn.rate, "0.7; 0.75"},
		{o.here, "", replay, oneSelect, turn.rate, "0.75; 0.8"},
		{o.here, "", sealedReplay, replay, turn.rate, "0.9"},
		{o.here, "", resume, twoBare, turn.rate, "0.4; 0.45"},
		{o.away, " at 1 ms", rollback, bare, turn.rate, "0.95"},
		{o.away, " at 1 ms", rollback, oneTransaction, turn.rate, ""},
		{o.away, " at 1 ms", resume, twoBare, turn.rate, "0.95"},
		{o.here, ", the app's processor time", rollback, oneTransaction, turn.appEach, "at most 1.6; 1.35"},
		{o.here, ", the server's processor time", rollback, oneTransaction, turn.serverEach, "at most 1.12"},
		{o.inFile, " on SQLite", rollback, bare, turn.rate, "0.25; 0.38"},
		{o.inFile, " on SQLite", oneTransaction, bare, turn.rate, ""},
		{o.inFile, " on SQLite", resume, twoBare, turn.rate, ""},
	} {
		row := []string{c.of.name + c.where, c.over.name}
		for _, v := range variants {
			row = append(row, c.figures.ratio(v, c.of, c.over, c.figure))
		}
		rows = append(rows, append(row, c.aim))
	}
	return rows
}

// ratio is a cell of the table; "" if the variant has no such way.
func (f figures) ratio(variant string, of, over way, figure func(turn) float64) string {
	if !f.has(variant, of) {
		return ""
	}
	to := f.of(variant, over)
	if len(to.turns) == 0 {
		return "void"
	}
	return ratioOf(f.of(variant, of), to, figure).String()
}

// perCommand tells what was counted.
func (o outcome) perCommand() [][]string {
	one := o.counts
	above := func(of, over way, figure func(counts) float64) string {
		return number(figure(one[of.name])-figure(one[over.name])) + " (" + number(figure(one[of.name])) + ")"
	}
	wal := func(c counts) float64 { return c.wal }
	roundTrips := func(c counts) float64 { return c.roundTrips }
	commits := func(w way) string { return number(one[w.name].commits) }
	return [][]string{
		{"for each command", "", "aim"},
		{"WAL of `Rollback` above the bare transaction (all), bytes", above(rollback, bare, wal), "at most 600"},
		{"WAL by hand in one transaction above the bare one", above(oneTransaction, bare, wal), ""},
		{"WAL of a `Rollback` that fails and has written nothing", number(one[failing.name].wal), "0"},
		{"round trips of `Rollback` above the bare transaction", above(rollback, bare, roundTrips), "0"},
		{"round trips of `Resume` above two bare transactions", above(resume, twoBare, roundTrips), "0"},
		{"round trips of `Park` above by hand", above(park, twoStatements, roundTrips), ""},
		{"round trips of a replay above one SELECT", above(replay, oneSelect, roundTrips), ""},
		{"commits of `Resume` with 0 calls; 1; 3",
			commits(noCall) + "; " + commits(resume) + "; " + commits(threeCalls), "1; 2; 4"},
		{"commits of `Rollback`; of `Park`", commits(rollback) + "; " + commits(park), "1; 2"},
	}
}

// number is a figure for each command. It is whole, but for what happens now and then.
func number(v float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}

// ways tells what each way did.
func (o outcome) ways() [][]string {
	rows := [][]string{slices.Concat([]string{""}, variants)}
	add := func(f figures, where string, ways ...way) {
		for _, w := range ways {
			row := []string{w.name + where}
			for _, v := range variants {
				row = append(row, f.way(v, w))
			}
			rows = append(rows, row)
		}
	}
	add(o.here, "", bare, oneTransaction, claimFirst, rollback, twoStatements, park, oneSelect, replay, sealedReplay, twoBare,
		resume, ginBare, ginRollback)
	add(o.away, " at 1 ms", bare, oneTransaction, rollback, twoBare, resume)
	add(o.inFile, " on SQLite", bare, oneTransaction, rollback, twoBare, resume)
	return rows
}

func (f figures) way(variant string, w way) string {
	if !f.has(variant, w) {
		return ""
	}
	t := f.of(variant, w).total()
	if t.jobs == 0 {
		return "void"
	}
	return fmt.Sprintf("%.0f%s", t.rate(), t.processor())
}
