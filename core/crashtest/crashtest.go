// Package crashtest kills an app at every step of its protocol, and checks what is left. Use it for your own handlers, in
// your own app.
//
//	func TestPaymentSurvivesCrashes(t *testing.T) {
//		crashtest.Run(t, crashtest.App{
//			Command: func(ctx context.Context, g *crashtest.Gates) (*exec.Cmd, error) {
//				database, err := g.Postgres(databaseURL)
//				cmd := exec.CommandContext(ctx, program)
//				cmd.Env = append(os.Environ(), "DATABASE_URL="+database, "ADDR=127.0.0.1:0")
//				return cmd, err
//			},
//		}, crashtest.Scenario{
//			Request: func(ctx context.Context, url string, n int) (*http.Request, error) { ... }, // a new command, a new key
//			Effects: func(ctx context.Context, url string, n int) (crashtest.Effects, error) { ... },
//		})
//	}
//
// First a command runs without a crash. The app has carried out another command before, so work that a process does only
// once makes no points. The command's statements, calls of the store and calls of providers pass the [Gates]: these are
// the events. There is a point before and after each event, and one each at the incoming request and at the outgoing
// answer. Then, for each point, the kit sends a new command, kills the app at the point, starts it again, and repeats the
// command with the same key until the answer is final. A point fails if
//
//   - an effect exists twice, or does not exist although the answer says so;
//   - answers contradict each other: two different answers for one command, two first answers, or another status than
//     without a crash;
//   - there is no final answer at the end.
//
// Each point is a subtest. The enumeration has every event that passes the gates, and is the same in every run: a point
// that failed can be run alone, by its name.
//
// # Two kinds of death
//
// A Command is a separate process, and is killed by SIGKILL. Nothing is simulated: sockets break, transactions are open,
// leases continue. Prefer this test. Its gates are proxies on 127.0.0.1, so only network traffic makes events. What the
// app does between two events is lost with the process, so it needs no point.
//
// A Handler is an app in this process, which cannot be killed separately. Its gates are around its store and its
// providers. Instead of a kill, a call never returns: no deferred function runs, no answer is sent, connections of
// clients are cut, and open transactions of the store are rolled back. That is quick and needs no database server. It
// does not show what an operating system or a database does when a process dies. Points inside of a transaction of the
// handler's own are missing, because its statements pass no gate. A mutex that is held during a call of the store stays
// locked, so it must not guard anything that outlives the app.
package crashtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/auth19/idem/core"
)

// App is an app under test. Exactly one of Command and Handler is set. Each is called for every life of the app, the
// first and those after a crash, with the gates of that life and a context that ends with it.
type App struct {
	// Command returns the command that starts the app, with its databases and providers behind gates. It must not be
	// started yet.
	Command func(ctx context.Context, g *Gates) (*exec.Cmd, error)
	// URL is where the Command listens. Default: the first http:// URL that it prints, so that every life can use another
	// port. Leave it empty if Scenario.Parallel is above 1.
	URL string

	// Handler returns a new instance of the app, with its store and providers behind gates. Make everything that must
	// outlive a crash before, and share it between the instances.
	Handler func(ctx context.Context, g *Gates) (http.Handler, error)
}

// Effects are what a command has done, by name: {"ledger": 1, "provider": 1}. The kit looks at how much each number
// grows.
type Effects map[string]int

// Scenario is a command to crash the app in, and what is known about the command.
type Scenario struct {
	// Request returns command n with its own key: a request to the app at url. The kit sends it several times, in lane n %
	// Parallel. If the command needs something, such as a payment to refund, Request creates that before it returns.
	Request func(ctx context.Context, url string, n int) (*http.Request, error)
	// Effects counts what command n has done. If Parallel is 1 it may count the effects of all commands.
	Effects func(ctx context.Context, url string, n int) (Effects, error)
	// Executions counts how often the handler was run for command n. It is for the report only. Default: the claims that
	// were won, if the app has its store from Gates.Store.
	Executions func(ctx context.Context, url string, n int) (int, error)

	// Unknown: outcome_unknown is a correct answer. Set it for Park, and for Resume if a provider step is not deduplicated
	// (core.Dedup). Then the effects may exist or not, but never twice.
	Unknown bool
	// ProblemCode returns the code of a problem, for apps that render them in their own way. Default: RFC 9457 (P-1).
	ProblemCode func(status int, header http.Header, body []byte) core.Code
	// Parallel is how many points are tried at a time, each with an app of its own; default 1. Most of the time is spent
	// waiting for leases: choose a short lease, and more than one app. If the start of an app takes a lock in the database,
	// as migrations do, give each app its own database: see Gates.Lane.
	Parallel int
	// Patience is how long the kit waits for a final answer, and for everything else of an app. Default 30 s.
	Patience time.Duration
}

const defaultPatience = 30 * time.Second

func (s Scenario) withDefaults() Scenario {
	if s.ProblemCode == nil {
		s.ProblemCode = codeOf
	}
	if s.Parallel == 0 {
		s.Parallel = 1
	}
	if s.Patience == 0 {
		s.Patience = defaultPatience
	}
	return s
}

// validate returns one error that names everything that is missing.
func validate(app App, s Scenario) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("idem: crashtest."+format, args...)) }
	if (app.Command == nil) == (app.Handler == nil) {
		bad("App.Command: set it, or Handler, and not both")
	}
	if app.URL != "" && app.Handler != nil {
		bad("App.URL: is for a Command; leave it out")
	}
	if app.URL != "" && s.Parallel > 1 {
		bad("Scenario.Parallel: apps side by side need an address each; leave App.URL out and print it")
	}
	if s.Request == nil {
		bad("Scenario.Request: is required")
	}
	if s.Effects == nil {
		bad("Scenario.Effects: is required; count what the command brings about")
	}
	if s.Parallel < 0 {
		bad("Scenario.Parallel: %d is below 1", s.Parallel)
	}
	if s.Patience < 0 {
		bad("Scenario.Patience: %v is negative", s.Patience)
	}
	return errors.Join(errs...)
}

// Run crashes the app at every point of the command. Each point is a subtest of t. Run logs a table of what it saw.
func Run(t *testing.T, app App, s Scenario) {
	t.Helper()
	if err := validate(app, s); err != nil {
		t.Fatal(err)
	}
	e := newEnumeration(app, s.withDefaults())
	defer e.close()
	if err := e.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.each(func(w *worker, p point) {
		t.Run(p.name, func(t *testing.T) {
			o := w.crash(t.Context(), p)
			e.report(o)
			for _, wrong := range o.wrong {
				t.Errorf("a crash %s: %s\n%s\nTo run this point alone: go test -run '%s'", p.words, wrong, o, alone(t.Name()))
			}
		})
	})
	t.Logf("%s", e.table())
}
