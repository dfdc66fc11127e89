package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
)

// options are the flags of the program.
type options struct {
	url, token, journal string
	intents, clients    int
	seed                uint64
}

func parse(args []string, out io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.url, "url", "", "of an example app, http://HOST:PORT; by default one is started for the run")
	flags.StringVar(&o.token, "token", "", "of a customer of that app, as it has printed it")
	flags.StringVar(&o.journal, "journal", "", "file that is kept: a client that was killed goes on with it; needs -url")
	flags.IntVar(&o.intents, "intents", 500, "payments to make; 0 only goes on with those of the journal")
	flags.IntVar(&o.clients, "clients", 16, "payments under way at a time")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64(), "of the cuts") //nolint:gosec // no secret
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	target, err := url.Parse(o.url)
	switch {
	case (o.url == "") != (o.token == ""):
		return o, errors.New("-url needs -token, and -token needs -url")
	case o.url != "" && (err != nil || target.Scheme != "http" || target.Port() == ""):
		return o, fmt.Errorf("-url: %q is not http://HOST:PORT", o.url)
	case o.journal != "" && o.url == "":
		return o, errors.New("-journal needs -url: an app that is started for one run loses its data after it")
	case o.intents < 0 || o.clients < 1 || flags.NArg() > 0:
		return o, errors.New("-intents must be at least 0, -clients at least 1, and no other arguments are allowed")
	}
	return o, nil
}
