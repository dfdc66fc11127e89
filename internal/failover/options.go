//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// The modes of replication.
const (
	modeSync  = "sync"  // COMMIT waits for a standby; without one nothing is committed
	modeAsync = "async" // it does not
)

// options are the flags of the program.
type options struct {
	duration  time.Duration
	kills     int
	mode      string
	pgbouncer bool
	seed      uint64
}

func parse(args []string, out io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("failover", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.DurationVar(&o.duration, "duration", 15*time.Minute, "after which no further primary is killed")
	flags.IntVar(&o.kills, "kills", 5, "how many primaries are killed; one takes about a minute")
	flags.StringVar(&o.mode, "mode", modeSync, "of replication: sync or async")
	flags.BoolVar(&o.pgbouncer, "pgbouncer", false, "through PgBouncer in transaction mode, with pgx's simple protocol")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64(), "of the moments of the kills")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.mode != modeSync && o.mode != modeAsync:
		return o, fmt.Errorf("-mode: %q is neither %s nor %s", o.mode, modeSync, modeAsync)
	case o.kills < 1 || o.duration <= 0 || flags.NArg() > 0:
		return o, errors.New("-kills is at least 1, -duration is above 0, and nothing follows the flags")
	}
	return o, nil
}

// String spells the options as flags: a run can be repeated with them, as far as timing can be.
func (o options) String() string {
	pgbouncer := ""
	if o.pgbouncer {
		pgbouncer = " -pgbouncer"
	}
	return fmt.Sprintf("-mode %s%s -kills %d -duration %v -seed %d", o.mode, pgbouncer, o.kills, o.duration, o.seed)
}
