package main

import (
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"time"
)

// options are the flags of the program.
type options struct {
	requests int64
	clients  int
	seed     uint64
	faults   time.Duration // between two faults, on average; 0: none, and no connection is cut
}

func parse(args []string, out io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Int64Var(&o.requests, "requests", 100_000, "how many to send before the faults end")
	flags.IntVar(&o.clients, "clients", 64, "how many send at the same time")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64(), "of what is sent and of the faults; how they meet in time it cannot decide")
	flags.DurationVar(&o.faults, "faults", 5*time.Second, "from one fault to the next, on average; 0 brings none")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.requests < 1 || o.clients < 1 || o.faults < 0 || flags.NArg() > 0 {
		return o, errors.New("-requests and -clients are at least 1, -faults is not below 0, and nothing follows the flags")
	}
	return o, nil
}
