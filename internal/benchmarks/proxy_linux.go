package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// serveProxy is the life of the proxy's process: it says where it listens, and how many answers there were for each line
// that it is sent. A line may say how much longer a round trip takes from now on. It ends with ask.
func serveProxy(server, roundTrip string, ask io.Reader, reply io.Writer) error {
	longer, err := time.ParseDuration(roundTrip)
	if err != nil {
		return err
	}
	delay, err := tuned(longer)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	link := newLink(server, listener, delay)
	ended := make(chan error, 2)
	go func() { ended <- link.run() }()
	go func() {
		_, err := fmt.Fprintln(reply, listener.Addr())
		for lines := bufio.NewScanner(ask); err == nil && lines.Scan(); {
			if longer, err := time.ParseDuration(lines.Text()); err == nil {
				link.delay.Store(int64(longer / 2))
			}
			_, err = fmt.Fprintln(reply, link.answers.Load())
		}
		ended <- err
	}()
	return <-ended
}

// tuned returns how long a direction must wait, so that a round trip is as much longer as was asked for: the work of the
// proxy, and threads that wake up late, are part of it.
func tuned(longer time.Duration) (time.Duration, error) {
	delay := longer / 2
	if delay == 0 || longer > 20*time.Millisecond { // then it makes no difference
		return delay, nil
	}
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	go func() {
		for {
			client, err := server.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(client, client) }() // ends with the client
		}
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	link := newLink(server.Addr().String(), listener, delay)
	go func() { _ = link.run() }()
	direct, err := ping(server.Addr())
	if err != nil {
		return 0, err
	}
	through, err := ping(listener.Addr())
	// Not more than a quarter: on a busy machine the pings may have waited for others.
	return min(delay, max(delay*3/4, delay-(through-direct-longer)/2)), err
}

// ping returns how long a round trip takes (p50).
func ping(server net.Addr) (time.Duration, error) {
	conn, err := net.Dial("tcp", server.String())
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	all := make([]time.Duration, 101)
	for i := range all {
		begun := time.Now()
		if _, err := conn.Write([]byte{0}); err != nil {
			return 0, err
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			return 0, err
		}
		all[i] = time.Since(begun)
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// link delays what goes between an app and its server. One thread does all the work. Go's own timers wait for whole
// milliseconds in an idle process. And where several goroutines sleep in the system, each keeps one of Go's processors from
// the others for a while: that made three milliseconds of one.
type link struct {
	server   string
	listener *net.TCPListener
	delay    atomic.Int64 // of each direction
	answers  atomic.Int64
	cables   []*cable
}

// cable is one direction of a connection.
type cable struct {
	from, to *os.File
	onTheWay []parcel  // none waits longer because of another
	answers  *messages // of the server; nil in the other direction
	closed   bool      // by the side from which it comes
}

// parcel is a part of the data, and when it must be passed on.
type parcel struct {
	data []byte
	due  time.Time
}

func newLink(server string, listener net.Listener, delay time.Duration) *link {
	l := &link{server: server, listener: listener.(*net.TCPListener)}
	l.delay.Store(int64(delay))
	return l
}

func (l *link) run() error {
	runtime.LockOSThread()
	// A network needs no processor. Where the user may, this thread goes before those that are measured.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // in ns; by default all sleeps are 50 µs longer
	listener, err := l.listener.File()
	if err != nil {
		return err
	}
	data := make([]byte, 64<<10)
	for {
		polled := []unix.PollFd{{Fd: int32(listener.Fd()), Events: unix.POLLIN}}
		for _, w := range l.cables {
			polled = append(polled, unix.PollFd{Fd: int32(w.from.Fd()), Events: unix.POLLIN})
		}
		if _, err := unix.Ppoll(polled, l.untilNext(), nil); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		now := time.Now()
		for i, w := range l.cables {
			if polled[1+i].Revents != 0 {
				l.take(w, data, now)
			}
			w.deliver(now)
		}
		l.cables = slices.DeleteFunc(l.cables, (*cable).ended)
		if polled[0].Revents != 0 {
			if err := l.accept(); err != nil {
				return err
			}
		}
	}
}

// untilNext is how long there is nothing to deliver; nil: nothing is on the way.
func (l *link) untilNext() *unix.Timespec {
	var next time.Time
	for _, w := range l.cables {
		if len(w.onTheWay) > 0 && (next.IsZero() || w.onTheWay[0].due.Before(next)) {
			next = w.onTheWay[0].due
		}
	}
	if next.IsZero() {
		return nil
	}
	left := unix.NsecToTimespec(max(0, time.Until(next).Nanoseconds()))
	return &left
}

// accept connects a client with the server.
func (l *link) accept() error {
	client, err := l.listener.AcceptTCP()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // its file stays
	server, err := net.Dial("tcp", l.server)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	app, err := client.File()
	if err != nil {
		return err
	}
	database, err := server.(*net.TCPConn).File()
	if err != nil {
		return err
	}
	l.cables = append(l.cables, &cable{from: app, to: database}, &cable{from: database, to: app, answers: &messages{}})
	return nil
}

// take takes what has come.
func (l *link) take(w *cable, data []byte, now time.Time) {
	n, err := w.from.Read(data)
	if err != nil {
		w.closed = true
		return
	}
	if w.answers != nil {
		l.answers.Add(int64(w.answers.ready(data[:n])))
	}
	w.onTheWay = append(w.onTheWay, parcel{slices.Clone(data[:n]), now.Add(time.Duration(l.delay.Load()))})
}

// deliver passes on what is due.
func (w *cable) deliver(now time.Time) {
	for len(w.onTheWay) > 0 && !w.onTheWay[0].due.After(now) {
		_, _ = w.to.Write(w.onTheWay[0].data) // to a closed connection: nobody misses it
		w.onTheWay = w.onTheWay[1:]
	}
}

// ended reports whether the last has been delivered, and closes the connection then: both directions end.
func (w *cable) ended() bool {
	if !w.closed || len(w.onTheWay) > 0 {
		return false
	}
	_, _ = w.from.Close(), w.to.Close()
	return true
}
