package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/pgtest"
)

var messages = flag.Int("messages", 400, "the number of messages of TestExactlyOnce")

// TestExactlyOnce publishes messages, each one to three times, to two workers that are killed (SIGKILL) again and again,
// at any moment and between handling and acknowledging, and started again: each payment takes one piece out of the
// warehouse and writes one mail. Half of the messages wait before the first worker starts.
//
//	go test -race -run TestExactlyOnce -messages 5000 -v .
//
// CONTRACT
func TestExactlyOnce(t *testing.T) {
	// On servers of their own, where nobody else's transactions hold back what is to be delivered.
	t.Run("postgres", func(t *testing.T) { exactlyOnce(t, newPlace(t, pgtest.Own(t).URL(), "")) })
	t.Run("nats", func(t *testing.T) { exactlyOnce(t, newPlace(t, pgtest.Own(t).URL(), startNATS(t))) })
}

func exactlyOnce(t *testing.T, p *env) {
	began := time.Now()
	var all []*message.Message
	for i := range *messages {
		m := paid(t, fmt.Sprintf("pay_%d", i))
		for range 1 + rand.N(3) {
			all = append(all, m)
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	p.publishAll(t, all[:len(all)/2])

	var publishing, slots sync.WaitGroup
	publishing.Go(func() { p.publishAll(t, all[len(all)/2:]) })
	var tally tally
	done := make(chan struct{})
	stop := sync.OnceFunc(func() {
		close(done)
		slots.Wait()
	})
	defer stop()
	for range 2 {
		slots.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				// A busy machine takes long to start a worker, so lives become longer.
				c := p.live(t, 10*time.Second+time.Since(began)/10, done)
				tally.add(c)
				if c.cmd.ProcessState.ExitCode() != -1 {
					t.Errorf("a worker has ended by itself\n%s", c.printed())
					return
				}
			}
		})
	}
	handled := func() bool {
		var n int64
		require.NoError(t, p.db.Model(&Mail{}).Distinct("payment_id").Count(&n).Error)
		return n == int64(*messages)
	}
	publishing.Wait()
	for end := time.Now().Add(8 * time.Minute); !handled() && !t.Failed() && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	require.True(t, handled(), "%d workers were killed, and not all messages are handled", tally.killed)
	last := p.spawn(t, 0) // for what was handled and not acknowledged
	eventually(t, "it listens", func() bool { return strings.Contains(last.printed(), "listening on") })
	eventually(t, "all are acknowledged", func() bool { return p.backlog(t) == 0 })
	require.NoError(t, last.cmd.Process.Signal(syscall.SIGTERM))
	<-last.ended
	require.Zero(t, last.cmd.ProcessState.ExitCode(), last.printed())
	tally.delivered += strings.Count(last.printed(), sayDelivered)

	t.Logf("%d messages published %d times, delivered %d times; %d workers killed, %d of them between handling and "+
		"acknowledging; %v", *messages, len(all), tally.delivered, tally.killed, tally.killedBetween,
		time.Since(began).Round(time.Second))
	p.requireOnce(t, *messages)
	require.Greater(t, tally.delivered, len(all), "nothing was delivered again after a kill")
	require.Positive(t, tally.killedBetween)
	require.Greater(t, tally.killed, tally.killedBetween)
}

// publishAll publishes some events at a time.
func (p *env) publishAll(t testing.TB, events []*message.Message) {
	for len(events) > 0 {
		n := min(len(events), 1+rand.N(50))
		p.publish(t, events[:n]...)
		events = events[n:]
	}
}

// tally is what became of workers.
type tally struct {
	mu                               sync.Mutex
	delivered, killed, killedBetween int
}

func (l *tally) add(c *child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delivered += strings.Count(c.printed(), sayDelivered)
	l.killed++
	if strings.Contains(c.printed(), sayKilled) {
		l.killedBetween++
	}
}

// child is a worker in a process of its own.
type child struct {
	cmd   *exec.Cmd
	ended chan struct{}
	mu    sync.Mutex
	out   bytes.Buffer
}

// Write implements [io.Writer].
func (c *child) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(b)
}

func (c *child) printed() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.String()
}

// spawn starts a worker that kills itself after so many messages at most; 0: never.
func (p *env) spawn(t testing.TB, life int) *child {
	// The process outlives t.Context, which ends before the clean-up.
	c := &child{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0]), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "DATABASE_URL="+p.url,
		childBroker+"="+p.broker, childNATS+"="+p.natsURL, fmt.Sprintf("%s=%d", childLife, life))
	c.run(t)
	return c
}

// run starts the process, which ends with the test at the latest.
func (c *child) run(t testing.TB) {
	t.Helper()
	c.cmd.Stdout, c.cmd.Stderr = c, c
	if err := c.cmd.Start(); err != nil {
		t.Errorf("start a process: %v", err)
		close(c.ended)
		return
	}
	go func() {
		_ = c.cmd.Wait() // how it ended is in cmd.ProcessState
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
	})
}

// live is the life of a worker, which ends by SIGKILL: by its own hand, from outside at a random time within upTo, or when all
// is done.
func (p *env) live(t testing.TB, upTo time.Duration, done <-chan struct{}) *child {
	c := p.spawn(t, 200)
	select {
	case <-c.ended:
	case <-time.After(rand.N(upTo)):
	case <-done:
	}
	_ = c.cmd.Process.Kill()
	<-c.ended
	return c
}
