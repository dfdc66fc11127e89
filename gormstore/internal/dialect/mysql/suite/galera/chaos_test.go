package galera

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/mariatest"
)

var commands = flag.Int("commands", 0, "send so many commands, with faults all the time; 0: one fault of each kind")

// One is chosen by the number of a command.
var recoveries = []string{"rollback", "resume", "park"}

// Every command takes effect once, and everybody is told the same of it, whatever happens to the nodes of a cluster, one by
// one and all at once. Each is sent to two nodes at once, and until it has an end, and once more.
//
// CONTRACT M-3, M-6, X-4, X-15, F-2
func TestChaos(t *testing.T) {
	tr := newTrial(t, false)
	tr.run(t, func() {
		if *commands > 0 {
			tr.long(t)
			return
		}
		for _, fault := range tr.faults() {
			fault(t)
		}
	})
	require.Empty(t, tr.findings(t))
}

// The trial finds what is applied twice: here rows are not in the transaction of the record.
func TestControl(t *testing.T) {
	tr := newTrial(t, true)
	const enough = 300
	tr.run(t, func() {
		for tr.begun.Load() < enough {
			time.Sleep(10 * time.Millisecond)
		}
	})
	require.NotEmpty(t, tr.findings(t))
}

func newTrial(t *testing.T, outside bool) *trial {
	t.Helper()
	w := newWorld(t, settings)
	w.outside = outside
	return &trial{world: w, ends: map[int]*end{}, heard: map[string]int{}}
}

// run lets clients send commands during faults.
func (tr *trial) run(t *testing.T, faults func()) {
	t.Helper()
	over := make(chan struct{})
	var clients sync.WaitGroup
	for n := range 12 {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			for {
				select {
				case <-over:
					return
				default:
					tr.command(t, r, int(tr.begun.Add(1)))
				}
			}
		})
	}
	defer func() { // a fault may end the test
		close(over)
		clients.Wait()
		tr.report(t)
	}()
	faults()
}

// trial is a world, and what its clients have heard.
type trial struct {
	*world
	begun   atomic.Int64
	mu      sync.Mutex
	ends    map[int]*end
	heard   map[string]int // codes of answers
	slowest time.Duration
}

// end is what clients have been told of a command.
type end struct {
	answers map[string]int // by text
	created int
	unknown bool
}

// name is a command's.
func name(n int) string { return fmt.Sprintf("%s/%08d", recoveries[n%len(recoveries)], n) }

// patience is how long a client goes on with a command.
const patience = 5 * time.Minute

// command sends a command until it has an end.
func (tr *trial) command(t *testing.T, r *rand.Rand, n int) {
	first := r.IntN(mariatest.Nodes)
	var twin sync.WaitGroup
	twin.Go(func() { tr.request(n, (first+1)%mariatest.Nodes) })
	ended := tr.request(n, first)
	twin.Wait()
	for deadline := time.Now().Add(patience); !ended; ended = tr.request(n, r.IntN(mariatest.Nodes)) {
		if time.Now().After(deadline) {
			t.Errorf("%s has no end after %s", name(n), patience)
			return
		}
		time.Sleep(time.Duration(50+r.IntN(300)) * time.Millisecond) // a client's pause
	}
	tr.request(n, r.IntN(mariatest.Nodes))
}

// request sends a command once, and reports whether it has an end.
func (tr *trial) request(n, node int) (ended bool) {
	begun := time.Now()
	answer := tr.send(node, name(n))
	took := time.Since(begun)
	var problem struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(answer.Body.Bytes(), &problem)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.slowest = max(tr.slowest, took)
	tr.heard[fmt.Sprint(answer.Code, " ", answer.Header().Get("Idempotency-Result"), problem.Code)]++
	of := tr.ends[n]
	if of == nil {
		of = &end{answers: map[string]int{}}
		tr.ends[n] = of
	}
	switch {
	case answer.Code == http.StatusCreated:
		of.answers[answer.Body.String()]++
		if answer.Header().Get("Idempotency-Result") == "created" {
			of.created++
		}
		return true
	case problem.Code == "outcome_unknown":
		of.unknown = true
		return true
	}
	return false
}

// faults are one of each kind.
func (tr *trial) faults() []func(t *testing.T) {
	const short, long = 2 * time.Second, 8 * time.Second // a node is missed after five seconds
	nodes := tr.cluster.Nodes
	lasting := func(d time.Duration) { time.Sleep(d) }
	return []func(t *testing.T){
		func(t *testing.T) {
			nodes[0].Kill()
			lasting(short)
			nodes[0].Restart(t)
		},
		func(t *testing.T) {
			nodes[1].Stop()
			lasting(long)
			nodes[1].Continue()
			tr.cluster.Whole(t)
		},
		func(t *testing.T) {
			nodes[2].Isolate(t, true)
			lasting(long)
			nodes[2].Isolate(t, false)
			tr.cluster.Whole(t)
		},
		func(t *testing.T) {
			tr.cluster.KillAll()
			tr.cluster.Recover(t)
		},
	}
}

// long makes faults until all commands are begun.
func (tr *trial) long(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for n := 0; int(tr.begun.Load()) < *commands; n++ {
		nodes := &tr.cluster.Nodes
		r.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		kind := r.IntN(3)
		if n%8 == 7 {
			kind = 3
		}
		t.Logf("%s: fault %d, %d commands", time.Now().Format(time.TimeOnly), kind, tr.begun.Load())
		tr.faults()[kind](t)
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
	}
}

// findings compares what clients were told with what is in the tables of each node.
func (tr *trial) findings(t *testing.T) (wrong []string) {
	tr.cluster.Whole(t)
	for _, node := range tr.cluster.Nodes {
		var entries []struct{ Command, Part, Run string }
		require.NoError(t, open(t, node, settings).Table("entry").Find(&entries).Error)
		runs := map[string][]string{}
		for _, e := range entries {
			runs[e.Command+" "+e.Part] = append(runs[e.Command+" "+e.Part], e.Run)
		}
		for n, of := range tr.ends {
			command := name(n)
			whole, reserve, capture := runs[command+" whole"], runs[command+" reserve"], runs[command+" capture"]
			answers := slices.Collect(maps.Keys(of.answers))
			right := of.created <= 1 && len(answers) <= 1
			switch recoveries[n%len(recoveries)] {
			case "rollback":
				right = right && slices.Equal(answers, whole)
			case "resume":
				right = right && slices.Equal(answers, capture) && len(reserve) == 1 && tr.keys.get(command) == 1
			case "park":
				told := of.unknown || len(answers) == 1 // both: its owner was slow, and recorded its answer late
				right = right && told && tr.runs.get(command) == 1
			}
			if !right {
				wrong = append(wrong, fmt.Sprintf("%s: told %v, unknown %t, created %d times; rows %v %v %v; handler %d times, "+
					"provider's keys %d", command, of.answers, of.unknown, of.created, whole, reserve, capture, tr.runs.get(command),
					tr.keys.get(command)))
			}
			delete(runs, command+" whole")
			delete(runs, command+" reserve")
			delete(runs, command+" capture")
		}
		if len(runs) > 0 {
			wrong = append(wrong, fmt.Sprintf("rows of nobody: %v", runs))
		}
	}
	return wrong
}

// report logs what was heard.
func (tr *trial) report(t *testing.T) {
	more, unknown := 0, 0
	for n, of := range tr.ends {
		if tr.runs.get(name(n)) > 1 {
			more++
		}
		if of.unknown {
			unknown++
		}
	}
	t.Logf("%d commands, of %d of which the handler ran more than once; %d unknown; slowest answer %s", len(tr.ends), more,
		unknown, tr.slowest.Round(time.Millisecond))
	for _, code := range slices.Sorted(maps.Keys(tr.heard)) {
		t.Logf("%7d %s", tr.heard[code], code)
	}
}
