package cutproxy_test

import (
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/internal/cutproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	question = "how much is it?"
	answer   = "twelve and a half"
)

// server takes connections. It answers each that has sent the whole question, and tells what each has sent.
type server struct {
	addr  string
	heard chan string
}

func newServer(t *testing.T) *server {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{addr: listener.Addr().String(), heard: make(chan string, 1000)}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			done.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		done.Wait()
	})
	return s
}

func (s *server) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	whole := make([]byte, len(question))
	n, err := io.ReadFull(conn, whole)
	s.heard <- string(whole[:n])
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, answer)
	_, _ = io.Copy(io.Discard, conn) // until the client goes
}

func newProxy(t *testing.T, target string, plan cutproxy.Plan) *cutproxy.Proxy {
	p, err := cutproxy.New(target, plan)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func always(fate cutproxy.Fate) cutproxy.Plan { return func(int) cutproxy.Fate { return fate } }

// ask sends the question over a connection of its own, and returns what came back before the connection ended or all
// of the answer was there.
func ask(addr string) string {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "" // refused, before Dial has seen the connection
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, question) // may be cut by now
	whole := make([]byte, len(answer))
	n, _ := io.ReadFull(conn, whole)
	return string(whole[:n])
}

func TestPass(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s.addr, nil)
	require.Equal(t, answer, ask(p.Addr()))
	require.Equal(t, question, <-s.heard)
	require.Equal(t, cutproxy.Stats{Accepted: 1}, p.Stats())
}

func TestCutAtEveryByte(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s.addr, nil)
	for n := range len(question) {
		p.SetPlan(always(cutproxy.Fate{Cut: cutproxy.ToServer, After: int64(n)}))
		require.Empty(t, ask(p.Addr()), n)
		require.Equal(t, question[:n], <-s.heard)
	}
	for n := range len(answer) {
		p.SetPlan(always(cutproxy.Fate{Cut: cutproxy.ToClient, After: int64(n)}))
		got := ask(p.Addr())
		require.LessOrEqual(t, len(got), n)
		require.True(t, strings.HasPrefix(answer, got), got)
		if heard := <-s.heard; n > 0 { // else the question may have been cut off, too
			require.Equal(t, question, heard)
			require.Equal(t, answer[:n], got)
		}
	}
	runs := len(question) + len(answer)
	require.Equal(t, cutproxy.Stats{Accepted: runs, Cut: runs}, p.Stats())
}

func TestTheLastByteOfARequestArrivesBeforeItsCut(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s.addr, always(cutproxy.Fate{Cut: cutproxy.ToServer, After: int64(len(question))}))
	require.Empty(t, ask(p.Addr()), "of the answer")
	require.Equal(t, question, <-s.heard)
}

func TestRefuse(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s.addr, always(cutproxy.Fate{Refuse: true}))
	require.Empty(t, ask(p.Addr()))
	require.Equal(t, cutproxy.Stats{Accepted: 1, Refused: 1}, p.Stats())
	p.Close()
	require.Empty(t, s.heard)
	_, err := net.Dial("tcp", p.Addr())
	require.Error(t, err, "closed")
}

func TestTwice(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s.addr, always(cutproxy.Fate{Twice: true}))
	require.Equal(t, answer, ask(p.Addr()))
	require.Equal(t, question, <-s.heard)
	require.Equal(t, question, <-s.heard)
	require.Equal(t, cutproxy.Stats{Accepted: 1, Doubled: 1}, p.Stats())
}

func TestServerIsAway(t *testing.T) {
	s := newServer(t)
	away, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, away.Close())
	p := newProxy(t, away.Addr().String(), nil)
	require.Empty(t, ask(p.Addr()))
	require.Equal(t, cutproxy.Stats{Accepted: 1, Lost: 1}, p.Stats())
	p.SetTarget(s.addr)
	require.Equal(t, answer, ask(p.Addr()))
}

func TestCutAllAndClose(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s.addr, nil)
	for _, end := range []func(){p.CutAll, p.Close} {
		conn, err := net.Dial("tcp", p.Addr())
		require.NoError(t, err)
		_, err = io.WriteString(conn, question)
		require.NoError(t, err)
		<-s.heard // so the connection is there
		end()
		_, _ = io.Copy(io.Discard, conn) // it ends, in order or with a reset
		require.NoError(t, conn.Close())
	}
	require.Equal(t, cutproxy.Stats{Accepted: 2, Cut: 1}, p.Stats())
}

func TestSilenceAll(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	others := newServer(t)
	for _, plan := range []cutproxy.Plan{nil, always(cutproxy.Fate{Cut: cutproxy.ToServer, After: 6})} {
		p := newProxy(t, listener.Addr().String(), plan)
		client, err := net.Dial("tcp", p.Addr())
		require.NoError(t, err)
		_, err = io.WriteString(client, question[:5])
		require.NoError(t, err)
		server, err := listener.Accept()
		require.NoError(t, err)
		_, err = io.ReadFull(server, make([]byte, 5))
		require.NoError(t, err)

		p.SilenceAll()
		require.Equal(t, 1, p.Stats().Silenced)
		_, err = io.WriteString(server, answer)
		require.NoError(t, err)
		_, err = io.WriteString(client, question[5:])
		require.NoError(t, err)
		require.NoError(t, client.Close())
		p.SetPlan(nil)
		p.SetTarget(others.addr)
		require.Equal(t, answer, ask(p.Addr()), "the connections to come are not touched")
		require.NoError(t, server.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		n, err := server.Read(make([]byte, 1))
		require.Zero(t, n)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it does not even hear that the client is gone")

		p.CutAll()
		require.NoError(t, server.SetReadDeadline(time.Time{}))
		heard, _ := io.ReadAll(server) // it ends, in order or with a reset
		require.Empty(t, heard)
		require.NoError(t, server.Close())
	}
}

func TestRandom(t *testing.T) {
	const connections, mean = 20_000, 1000
	plan, again, other := cutproxy.Random(7, mean), cutproxy.Random(7, mean), cutproxy.Random(8, mean)
	sum, differ := 0.0, 0
	cuts := map[cutproxy.Direction]int{}
	for n := range connections {
		fate := plan(n)
		require.Equal(t, fate, again(n))
		if fate != other(n) {
			differ++
		}
		cuts[fate.Cut]++
		sum += float64(fate.After)
	}
	require.Greater(t, differ, connections/2)
	require.Len(t, cuts, 2)
	require.InDelta(t, connections/2, cuts[cutproxy.ToServer], connections/20)
	require.InDelta(t, mean, sum/connections, mean/20)
}
