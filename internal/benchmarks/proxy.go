package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// proxy stands between an app and its database. It delays what goes through, and counts the server's answers. It is a
// process of its own: in the app's process its work would be the app's, and its sleepers would wait for the app.
type proxy struct {
	url   string // of the database, through the proxy
	ask   io.Writer
	reply *bufio.Reader
}

// proxyVariable is set in the environment of the process that is a proxy. Its arguments are the server and the time.
const proxyVariable = "IDEM_BENCHMARKS_PROXY"

func init() {
	if os.Getenv(proxyVariable) == "" {
		return
	}
	if err := serveProxy(os.Args[1], os.Args[2], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// newProxy starts a proxy that makes each round trip to a database longer by the given time.
func newProxy(t testing.TB, databaseURL string, roundTrip time.Duration) (*proxy, error) {
	target, err := url.Parse(databaseURL)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, target.Host, roundTrip.String())
	cmd.Env = append(os.Environ(), proxyVariable+"=1")
	cmd.Stderr = os.Stderr
	ask, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	reply, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = ask.Close() // ends it
		_ = cmd.Wait()
	})
	p := &proxy{ask: ask, reply: bufio.NewReader(reply)}
	target.Host, err = p.line()
	p.url = target.String()
	return p, err
}

func (p *proxy) line() (string, error) {
	line, err := p.reply.ReadString('\n')
	return strings.TrimSpace(line), err
}

// roundTrips is how many there were so far: the server ends each of its answers with the message ReadyForQuery.
func (p *proxy) roundTrips() (int, error) { return p.tell("") }

// slowDown makes each round trip longer by so much from now on.
func (p *proxy) slowDown(roundTrip time.Duration) error {
	_, err := p.tell(roundTrip.String())
	return err
}

func (p *proxy) tell(what string) (int, error) {
	if _, err := io.WriteString(p.ask, what+"\n"); err != nil {
		return 0, err
	}
	line, err := p.line()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(line)
}

// messages finds the messages of a server in what it sends: a letter, and a length that counts itself but not the letter.
type messages struct {
	head [5]byte
	have int // of head
	left int // of the message's body
}

// ready is how many of the messages that begin in the next part are ReadyForQuery.
func (m *messages) ready(part []byte) (n int) {
	for len(part) > 0 {
		if m.left > 0 {
			skip := min(m.left, len(part))
			part, m.left = part[skip:], m.left-skip
			continue
		}
		copied := copy(m.head[m.have:], part)
		part, m.have = part[copied:], m.have+copied
		if m.have == len(m.head) {
			m.have, m.left = 0, int(binary.BigEndian.Uint32(m.head[1:]))-4
			if m.head[0] == 'Z' {
				n++
			}
		}
	}
	return n
}
