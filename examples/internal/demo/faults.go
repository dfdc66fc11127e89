package demo

import (
	"bytes"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Header is the header by which a request of the page asks for a fault. A page of another origin cannot send it: it would
// need a permission that the app does not give.
const Header = "Demo-Fault"

// The faults that a request may ask for. Each strikes at the same moment: the payment is booked, its answer has not left.
// A request that asks for another one, such as "none", has a connection of its own, and no fault.
const (
	faultLost = "lost" // the connection is cut
	faultSlow = "slow" // the answer leaves after slowness
	faultDies = "dies" // the process ends as with kill -9, and a new one takes its place
)

// slowness is longer than the page waits for an answer.
const slowness = 4 * time.Second

// faults are those that this system can have.
func (d *Demo) faults() []string {
	if runtime.GOOS == "windows" { // it cannot replace a process
		return []string{faultLost, faultSlow}
	}
	return []string{faultLost, faultSlow, faultDies}
}

// Faults strikes the requests that ask for it. It stands in front of the router, where the network would be: what it does
// happens after the handler's COMMIT, and the app behind it is not a part of it. addr is where the app listens.
func (d *Demo) Faults(addr string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault := r.Header.Get(Header)
		if fault == "" {
			next.ServeHTTP(w, r)
			return
		}
		ownConnection(w)
		held := &heldAnswer{header: http.Header{}, status: http.StatusOK}
		next.ServeHTTP(held, r)
		if held.status == http.StatusCreated {
			switch fault {
			case faultLost:
				cut(w)
				return
			case faultSlow:
				pause(r)
			case faultDies:
				slog.Warn("the page has asked for the death of the server: a new process takes its place")
				if err := becomeNewProcess(addr); err != nil {
					slog.Error("the process could not be replaced", "error", err)
				}
				cut(w)
				return
			}
		}
		held.release(w)
	})
}

// ownConnection lets the browser use this connection once. Where a connection breaks that was used before, browsers repeat
// the request by themselves, also a POST. The page has to show every request.
func ownConnection(w http.ResponseWriter) { w.Header().Set("Connection", "close") }

// cut closes the connection: no byte of the answer leaves.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		err = conn.Close()
	}
	if err != nil {
		slog.Error("a connection could not be cut", "error", err)
	}
}

// pause waits for slowness, or until the client has gone.
func pause(r *http.Request) {
	timer := time.NewTimer(slowness)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// becomeNewProcess replaces this process by a new one of the same program, as a supervisor does after kill -9. The memory,
// the connections and the transactions of this one are gone at once, and nothing that was deferred runs. Between the two,
// nobody listens at addr. It returns only if that failed.
func becomeNewProcess(addr string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	for name, value := range map[string]string{"ADDR": addr, Reborn: "1"} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return syscall.Exec(program, os.Args, os.Environ()) //nolint:gosec // this very program
}

// Reborn is the environment variable that tells a process that it has taken the place of another one.
const Reborn = "DEMO_REBORN"

// heldAnswer keeps an answer back.
type heldAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *heldAnswer) Header() http.Header { return a.header }

func (a *heldAnswer) WriteHeader(status int) { a.status = status }

func (a *heldAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }

func (a *heldAnswer) release(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	if _, err := w.Write(a.body.Bytes()); err != nil {
		slog.Debug("the client has gone", "error", err)
	}
}
