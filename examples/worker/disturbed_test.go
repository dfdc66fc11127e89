package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/pgtest"
)

// A worker that is paused (SIGSTOP) keeps what it has in hand for a bounded time; then another one goes on. When it wakes,
// it does nothing twice.
//
// CONTRACT
func TestPausedWorker(t *testing.T) {
	for name, nats := range map[string]bool{"postgres": false, "nats": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := ""
			if nats {
				address = startNATS(t)
			}
			p := newPlace(t, pgtest.Own(t).URL(), address)
			const n = 100
			var events []*message.Message
			for i := range n {
				events = append(events, paid(t, fmt.Sprintf("pay_%d", i)))
			}
			p.publish(t, events[:n/2]...)
			paused := p.spawn(t, 0)
			eventually(t, "it works", func() bool { return p.taken(t) > 0 })
			require.NoError(t, paused.cmd.Process.Signal(syscall.SIGSTOP))
			p.publish(t, events[n/2:]...)
			other := p.spawn(t, 0)
			eventually(t, "the other has done everything", func() bool { return p.taken(t) == n && p.backlog(t) == 0 })
			require.NoError(t, paused.cmd.Process.Signal(syscall.SIGCONT))
			p.publish(t, paid(t, "pay_last"))
			eventually(t, "all is done", func() bool { return p.taken(t) == n+1 && p.backlog(t) == 0 })
			for _, c := range []*child{paused, other} {
				require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
				<-c.ended
			}
			p.requireOnce(t, n+1)
		})
	}
}

// The broker is killed again and again while events come in: they wait in the outbox, none is buried, and each is handled
// once.
//
// CONTRACT
func TestBrokerIsKilled(t *testing.T) {
	t.Parallel()
	port, err := pgtest.FreePort()
	require.NoError(t, err)
	address, dir := fmt.Sprintf("nats://127.0.0.1:%d", port), t.TempDir()
	broker := spawnNATS(t, port, dir)
	p := newPlace(t, pgtest.Own(t).URL(), address)
	worker := p.spawn(t, 0)
	const rounds, each = 4, 40
	for round := range rounds {
		for i := range each {
			p.publish(t, paid(t, fmt.Sprintf("pay_%d_%d", round, i)))
		}
		eventually(t, "it works", func() bool { return p.taken(t) > int64(round*each) })
		require.NoError(t, broker.cmd.Process.Kill())
		<-broker.ended
		broker = spawnNATS(t, port, dir)
	}
	eventually(t, "all is done", func() bool { return p.taken(t) == rounds*each && p.backlog(t) == 0 })
	require.NoError(t, worker.cmd.Process.Signal(syscall.SIGTERM))
	<-worker.ended
	p.requireOnce(t, rounds*each)
	var buried int64
	require.NoError(t, p.db.Table("watermill_"+deadOutbox).Count(&buried).Error)
	require.Zero(t, buried)
}

// requireOnce checks that so many payments had one effect each, and that nothing was buried.
func (p *env) requireOnce(t testing.TB, n int) {
	t.Helper()
	require.EqualValues(t, n, p.taken(t))
	mails := p.mails(t)
	require.Len(t, mails, n)
	for payment, count := range mails {
		require.Equal(t, 1, count, payment)
	}
	require.Empty(t, p.buried(t))
}

// spawnNATS starts a NATS server with JetStream in a process of its own, and waits for it.
func spawnNATS(t testing.TB, port int, dir string) *child {
	t.Helper()
	c := &child{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0]), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childServer+"="+dir, fmt.Sprintf("%s=%d", childPort, port))
	c.run(t)
	eventually(t, "the broker listens", func() bool { return strings.Contains(c.printed(), sayServing) })
	return c
}

const sayServing = "child: the broker listens"

// serveNATS is the life of a NATS server, which ends by SIGKILL.
func serveNATS() {
	port, err := strconv.Atoi(os.Getenv(childPort))
	if err == nil {
		var s *server.Server
		s, err = server.NewServer(&server.Options{
			Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: os.Getenv(childServer), NoSigs: true, NoLog: true,
		})
		if err == nil {
			s.Start()
			if s.ReadyForConnections(time.Minute) {
				fmt.Println(sayServing)
				select {}
			}
		}
	}
	fmt.Fprintln(os.Stderr, "the broker does not start:", err)
	os.Exit(1)
}
