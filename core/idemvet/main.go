// Command idemvet finds code of guarded handlers that costs money later. It reads the whole app:
//
//	go install github.com/auth19/idem/core/idemvet@latest
//	idemvet ./...
//
// It has seven checks:
//
//   - straywrite: a handler of a guarded Rollback or Resume route, or middleware behind the guard, writes to a database, and
//     not through the attempt's transaction. The write stays when the attempt is rolled back, or waits for the row locks of
//     its own handler.
//   - strayread: such a handler reads, past the attempt, a table that it has written before in the attempt's transaction.
//   - straycall: such a handler, or a goroutine of it, calls another service outside of core.Call.
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
// Packages that do not compile, and that no main with a guard imports, are named and left out.
//
// The exit code is 0 without a finding, 1 with one, 2 if the app could not be read, and 3 if packages were left out and the
// others have no finding.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	expected := flag.Int("routes", -1, "how many guarded routes there are: fail if another number was seen")
	clients := flag.String("clients", "",
		"more packages that call other services, beside net/http and "+stripe+", with commas between them")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(), "usage: idemvet [-routes n] [-clients list] packages")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(notRead)
	}
	p, err := load("", flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "idemvet:", err)
		os.Exit(notRead)
	}
	if *clients != "" {
		p.clients = strings.Split(*clients, ",")
	}
	os.Exit(p.vet(os.Stdout, *expected))
}
