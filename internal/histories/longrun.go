package histories

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/idemclient"
)

// longRun has the clients of a long run, which use package idemclient, and their count.
type longRun struct {
	*clients
	*count
	t       *testing.T
	o       options
	client  *idemclient.Client
	nemesis *nemesis
	atStart []float64    // memory of the apps
	gaveUp  atomic.Int64 // commands without an answer when the client stopped trying
	tenth   atomic.Int64 // of the requests that was logged last
}

// quiet is the last part of a run. No app is killed in it, so that the growth of memory can be seen.
const quiet = 1. / 3

// newLongRun prepares a long run. Nothing is broken yet.
func newLongRun(t *testing.T, w *world, o options) *longRun {
	t.Helper()
	l := &longRun{t: t, o: o, count: &count{}}
	l.clients = newClients(t, w, o.seed, l.count, ofLongRun(int(min(4000, max(100, o.requests/10)))))
	l.network.MaxIdleConnsPerHost = o.clients
	l.nemesis = &nemesis{t: t, world: w, r: l.random(2, 0), between: o.faults, spares: func() bool {
		return float64(l.sent.Load()) > (1-quiet)*float64(o.requests)
	}}
	l.nemesis.faults = l.nemesis.usual()
	var err error
	l.client, err = idemclient.New(idemclient.Config{
		Transport: l, AttemptTimeout: answerWithin,
		MaxAttempts: 1000, FirstPause: 20 * time.Millisecond, MaxPause: time.Second,
	})
	require.NoError(t, err)
	for _, in := range w.instances {
		l.atStart = append(l.atStart, in.Memory())
	}
	return l
}

// load lets the clients send under faults until there are enough requests. Then every command is repeated once more.
func (l *longRun) load() {
	ctx, enough := context.WithCancel(l.t.Context())
	defer enough()
	l.sequential = l.o.faults <= 0
	l.nemesis.disturb(ctx, l.o.clients, func(client int) {
		l.work(client)
		enough()
	})
	l.sequential = true
	l.each(l.o.clients, l.begun(), l.carryOut)
}

// work sends one command after the other: new ones, repeats, and other commands under old keys.
func (l *longRun) work(client int) {
	r := l.random(1, client)
	for l.sent.Load() < l.o.requests && !l.t.Failed() {
		n, old := l.old(r)
		if tenth := 10 * l.sent.Load() / l.o.requests; l.tenth.CompareAndSwap(tenth-1, tenth) {
			l.t.Logf("%d of %d requests, %d intents", l.sent.Load(), l.o.requests, l.begun())
		}
		what := r.IntN(10)
		if what < 5 || !old {
			l.carryOut(r, client, l.intent(l.begin()))
			continue
		}
		// If a claim was written although its owner got an error, it is unknown after its lease, and free once Run has
		// released it (F-1). Another command may have that key then.
		l.send(client, l.anywhere(r), l.intent(n), what >= 8 && l.of(n).end == endKnown)
	}
}

// old chooses an intent that has ended: half of the time a recent one.
func (l *longRun) old(r *rand.Rand) (n int, ok bool) {
	begun := l.begun()
	if begun == 0 {
		return 0, false
	}
	if n = r.IntN(begun); r.IntN(2) == 0 {
		n = begun - 1 - r.IntN(min(begun, 4*l.o.clients))
	}
	return n, l.of(n).end != endOpen
}

// carryOut sends a command until it has an answer; only once, if it can have none.
func (l *longRun) carryOut(r *rand.Rand, client int, i intent) {
	if i.neverEnds() {
		l.send(client, l.anywhere(r), i, false)
		return
	}
	ctx := context.WithValue(l.t.Context(), sendingKey{}, sending{r, client, i})
	response, err := l.client.Do(ctx, i.key, l.request(i.caller, i.path, i.key, i.body(false)))
	switch {
	case err == nil:
		_ = response.Body.Close() // it was read
	case !errors.Is(err, idemclient.ErrOutcomeUnknown):
		l.gaveUp.Add(1) // it is repeated once more in the end
	case i.isStuck():
		l.settleStuck(r, client, i)
	}
}

// sending is what a request of [longRun.client] belongs to.
type sending struct {
	r      *rand.Rand
	client int
	intent intent
}

type sendingKey struct{}

// RoundTrip implements [http.RoundTripper] for the client. So all answers are counted, also those after which it repeats.
func (l *longRun) RoundTrip(r *http.Request) (*http.Response, error) {
	s := r.Context().Value(sendingKey{}).(sending)
	o, err := l.sendRequest(s.client, l.anywhere(s.r), s.intent, false, r)
	if err != nil {
		return nil, err
	}
	a := o.Answer
	body := io.NopCloser(strings.NewReader(a.Body))
	return &http.Response{StatusCode: a.Status, Header: a.header, Body: body, Request: r}, nil
}

// settleStuck lets an operator settle a parked refund as applied, because the provider has the charge. A decision may come
// too early: the operation's deadline must have passed.
func (l *longRun) settleStuck(r *rand.Rand, client int, i intent) {
	for range 10 {
		d := l.applied(fmt.Sprintf(`{"amount":"%s"}`, i.amount))
		if a := l.settle(client, 0, l.anywhere(r), i, d).Answer; a != nil && a.Status == http.StatusOK {
			return
		}
		time.Sleep(lease)
	}
}

// report counts the effects and prints the table. The error says that something is wrong.
func (l *longRun) report(out io.Writer) error {
	if err := l.audit(l.t.Context(), l.clients); err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, value any) { _, _ = fmt.Fprintf(table, "%s\t%v\t\n", name, value) }
	rows := func(counts map[string]int) {
		row("", "")
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			row(name, counts[name])
		}
	}
	row("requests", l.sent.Load())
	row("whole answers", l.answered.Load())
	row("intents", l.begun())
	row("given up by a client, and repeated later", l.gaveUp.Load())
	row("clients that hung up", l.hungUp.Load())
	row("refunds that were parked and settled", l.settled.Load())
	ends, methods := l.ends()
	rows(ends)
	rows(methods)
	rows(l.nemesis.total())
	row("", "")
	for _, what := range []wrong{duplicate, loss, contradiction} {
		row(string(what), l.wrongs[what])
	}
	row("", "")
	for n, in := range l.world.instances {
		row("memory of "+in.Name+" at start / end", fmt.Sprintf("%.0f MiB / %.0f MiB", l.atStart[n], in.Memory()))
	}
	if err := table.Flush(); err != nil || len(l.wrongs) == 0 {
		return err
	}
	for _, f := range l.shown { // each with the rows and log lines of its operation
		evidence, err := l.world.evidence(l.t.Context(), f.operation)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "\n%s: operation %s: %s\n%s", f.wrong, f.operation, f.text, evidence)
	}
	return fmt.Errorf("seed %d: %d duplicates, %d losses, %d contradictions", l.seed, l.wrongs[duplicate], l.wrongs[loss],
		l.wrongs[contradiction])
}

// ends counts how the intents ended, by the answers of clients, and their methods.
func (l *longRun) ends() (ends, methods map[string]int) {
	ends, methods = map[string]int{}, map[string]int{}
	for n := range l.begun() {
		i := l.intent(n)
		methods[string(i.kind)+"s with "+i.method]++
		switch m := l.of(n); {
		case m.end == endUnknown:
			ends["unknown"]++
		case m.end == endKnown && m.status < 300:
			ends["carried out"]++
		case m.end == endKnown:
			ends["refused"]++
		case i.neverEnds():
			ends["undone every time"]++
		}
	}
	return ends, methods
}
