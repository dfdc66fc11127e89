package main

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/auth19/idem/core"
)

// pgbench is PostgreSQL's own benchmark program: the same statements from a client written in C, prepared as pgx does.
// Ids are made by the server, from two random numbers.
type pgbench struct {
	program   string
	directory string // for scripts
}

// findPgbench returns nil where there is none.
func findPgbench(directory string) *pgbench {
	if program, err := exec.LookPath("pgbench"); err == nil {
		return &pgbench{program, directory}
	}
	installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench") // fails on a bad pattern only
	if len(installed) == 0 {
		return nil
	}
	return &pgbench{installed[len(installed)-1], directory}
}

// side runs the statements of a floor. Replays get the keys that next returns; pgbench has one of them only.
func (p *pgbench) side(d *database, f *floor, k kind, next func() string) (side, error) {
	id := core.Scoping{}.RecordID(principal, next())
	replacement := literal
	if k == first {
		const random = `lpad(to_hex(:high::int), 8, '0') || lpad(to_hex(:low::int), 56, '0')`
		replacement = func(form any) string {
			switch form.(type) {
			case []byte:
				return `decode(` + random + `, 'hex')`
			case string:
				return random
			}
			return ":high::bigint"
		}
	}
	file := filepath.Join(p.directory, newKey()+".sql")
	if err := os.WriteFile(file, []byte(script(f, id, replacement)), 0o600); err != nil {
		return side{}, err
	}
	return side{name: "pgbench", turn: func(clients int, length time.Duration) (turn, error) {
		return p.run(d.url, file, clients, length)
	}}, nil
}

// parameter is a parameter of a statement.
var parameter = regexp.MustCompile(`\$\d+`)

// script writes statements for pgbench. Arguments that differ from command to command become variables.
func script(f *floor, id core.ID, replacement func(form any) string) string {
	var b strings.Builder
	b.WriteString("\\set high random(0, 2147483647)\n\\set low random(0, 2147483647)\n")
	for i, s := range f.statements {
		texts := make([]string, len(s.args))
		for j, arg := range s.args {
			texts[j] = literal(arg)
		}
		for _, c := range f.changes {
			if c.statement == i {
				texts[c.arg] = replacement(c.to(id))
			}
		}
		text := parameter.ReplaceAllStringFunc(s.sql, func(p string) string {
			n, _ := strconv.Atoi(p[1:])
			return texts[n-1]
		})
		b.WriteString(strings.Join(strings.Fields(text), " ") + ";\n")
	}
	return b.String()
}

// literal is a value as text of SQL.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case []byte:
		return `'\x` + hex.EncodeToString(v) + `'::bytea`
	case string:
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	case driver.Valuer: // sql.NullString, for instance
		if value, err := v.Value(); err == nil {
			return literal(value)
		}
	}
	return fmt.Sprintf("(%v)", v) // in brackets, because a cast binds closer than a minus
}

var (
	processed = regexp.MustCompile(`number of transactions actually processed: (\d+)`) // "80", or "80/80"
	failed    = regexp.MustCompile(`number of failed transactions: ([1-9]\d*)`)
	perSecond = regexp.MustCompile(`tps = ([\d.]+) \(without initial connection time\)`)
)

// run takes a turn, of whole seconds: pgbench knows no shorter one.
func (p *pgbench) run(url, file string, clients int, length time.Duration) (turn, error) {
	bound := "--time=" + strconv.Itoa(max(1, int(math.Round(length.Seconds()))))
	if length == 0 {
		bound = "--transactions=1"
	}
	cmd := exec.CommandContext(context.Background(), p.program, "--no-vacuum", "--protocol=prepared", "--file="+file,
		"--client="+strconv.Itoa(clients), "--jobs=2", bound, url)
	var problems strings.Builder
	cmd.Stderr = &problems
	output, err := cmd.Output()
	if err != nil {
		return turn{}, fmt.Errorf("%w\n%s", err, problems.String())
	}
	jobs, rate := processed.FindSubmatch(output), perSecond.FindSubmatch(output)
	if jobs == nil || rate == nil || failed.Match(output) { // it tells no rate where nothing was done in all that time
		return turn{}, fmt.Errorf("no result:\n%s\n%s", output, problems.String())
	}
	n, _ := strconv.Atoi(string(jobs[1]))
	tps, _ := strconv.ParseFloat(string(rate[1]), 64)
	return turn{jobs: n, took: time.Duration(float64(n) / tps * float64(time.Second))}, nil
}
