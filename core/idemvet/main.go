// Command idemvet finds code of guarded handlers that costs money later. It reads the whole app:
//
//	go install github.com/auth19/idem/core/idemvet@latest
//	idemvet ./...
//
// It has five checks:
//
//   - straywrite: a handler of a guarded Rollback or Resume route, or middleware behind the guard, writes to a database, and
//     not through the attempt's transaction. The write stays when the attempt is rolled back, or waits for the row locks of
//     its own handler.
//   - attemptctx: a function that looks for the attempt is given another context.
//   - txgoroutine: a goroutine uses the transaction of an attempt. The attempt may have ended by then, and a transaction
//     must not be used by two goroutines.
//   - txbegin: Begin of GORM on the transaction of an attempt, which fails.
//   - freshkey: a retry loop sends a new Idempotency-Key at each try, so that each try is a new command.
//
// A finding that is meant so is silenced on its line, or on the line above: //idemvet:ignore and the reason.
//
// At the end it says how many guarded routes it has seen. It fails if a route of a core.Routes literal was not seen, and
// with -routes if the number is another one: what was not seen was not read either.
//
// The exit code is 0 without a finding, 1 with one, and 2 if the app could not be read.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	expected := flag.Int("routes", -1, "how many guarded routes there are: fail if another number was seen")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(), "usage: idemvet [-routes n] packages")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	p, err := load("", flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "idemvet:", err)
		os.Exit(2)
	}
	if ok := p.vet(os.Stdout, *expected); !ok {
		os.Exit(1)
	}
}
