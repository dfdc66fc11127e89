package pgproxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// link is a connection through the proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	questions      *bufio.Reader
	prepared       map[string]string // text by the statement's name

	mu    sync.Mutex
	turns []Fault // those whose answer has not come yet, in their order; the first one is the start of the session
	mute  bool    // nothing goes to the client any more
}

func newLink(p *Proxy, client, server net.Conn) session {
	return &link{proxy: p, client: client, server: server, questions: bufio.NewReaderSize(client, 64<<10),
		prepared: map[string]string{}, turns: []Fault{Pass}}
}

func (l *link) cut() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func (l *link) serve() {
	var answers sync.WaitGroup
	answers.Go(l.answer)
	if l.begin() {
		l.ask()
	}
	answers.Wait()
	l.cut()
}

// Codes of packets without a type, which begin a connection.
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

// begin passes the packets on that begin a session. It returns false where none begins.
func (l *link) begin() bool {
	for {
		packet, err := readMessage(l.questions, 0)
		if err != nil || len(packet) < 8 {
			l.cut()
			return false
		}
		switch binary.BigEndian.Uint32(packet[4:]) {
		case sslRequest, gssRequest:
			_, _ = l.client.Write([]byte("N"))
			continue
		case cancelRequest:
			if l.proxy.judge(Turn{Cancel: true}) != Pass {
				l.cut()
				return false
			}
			_, _ = l.server.Write(packet) // the server closes the connection
			return false
		}
		_, err = l.server.Write(packet)
		return err == nil
	}
}

// ask carries questions until the session ends.
func (l *link) ask() {
	var question []byte
	var turn Turn
	for {
		m, err := readMessage(l.questions, 1)
		if err != nil { // the client is gone
			l.mu.Lock()
			mute := l.mute
			l.mu.Unlock()
			if mute {
				wait(l.proxy) // the server does not hear of it at once
			}
			l.cut()
			return
		}
		question = append(question, m...)
		fields := bytes.SplitN(m[5:], []byte{0}, 3)
		switch m[0] {
		case 'P': // Parse: name, text
			l.prepared[string(fields[0])] = string(fields[1])
		case 'B': // Bind: portal, name
			turn.SQL = append(turn.SQL, l.prepared[string(fields[1])])
		case 'Q':
			turn.SQL = append(turn.SQL, string(fields[0]))
		case 'p', 'X', 'H': // a password, the end, Flush
			_, _ = l.server.Write(question)
			question = nil
		}
		if m[0] != 'Q' && m[0] != 'S' {
			continue
		}
		if !l.carry(turn, question) {
			return
		}
		question, turn = nil, Turn{}
	}
}

// carry does with a turn what the proxy's rule says. It returns false if no other turn follows.
func (l *link) carry(turn Turn, question []byte) bool {
	l.mu.Lock()
	mute := l.mute
	l.mu.Unlock()
	if mute {
		return true // until the client leaves
	}
	fault := l.proxy.judge(turn)
	switch fault {
	case LoseQuestion:
		l.cut()
		return false
	case Late:
		rest, _ := l.questions.Peek(l.questions.Buffered())
		_ = l.client.Close()
		wait(l.proxy)
		_, _ = l.server.Write(slices.Concat(question, rest))
		if tcp, ok := l.server.(*net.TCPConn); ok {
			_ = tcp.CloseWrite() // the server reads it to the end, and leaves
		}
		return false
	case SwallowAll:
		l.mu.Lock()
		l.mute = true
		l.mu.Unlock()
		return true
	case Conflict:
		question = conflict(turn)
	}
	l.mu.Lock()
	l.turns = append(l.turns, fault)
	first := len(l.turns) == 1
	l.mu.Unlock()
	if fault == Fatal {
		if first {
			l.fatal()
		}
		return true // answer ends the connection
	}
	for executed := 0; fault == Slow && len(question) > 0; {
		end := 1 + int(binary.BigEndian.Uint32(question[1:]))
		_, _ = l.server.Write(question[:end])
		if question[0] == 'E' {
			l.proxy.pause(turn, executed)
			executed++
		}
		question = question[end:]
	}
	_, err := l.server.Write(question)
	return err == nil
}

func wait(p *Proxy) {
	select {
	case <-time.After(Delay):
	case <-p.closed:
	}
}

// conflict is a question that fails as the turn's first statement would. A COMMIT ends its transaction with that.
func conflict(turn Turn) []byte {
	text := "DO $$ BEGIN RAISE EXCEPTION 'on purpose' USING ERRCODE = '40001'; END $$"
	if len(turn.SQL) > 0 && IsCommit(turn.SQL[0]) {
		text = "ROLLBACK; " + text
	}
	return message('Q', text+"\x00")
}

// IsCommit reports whether a statement is a COMMIT.
func IsCommit(sql string) bool {
	return strings.EqualFold(strings.TrimRight(strings.TrimSpace(sql), ";"), "commit")
}

// answer carries answers until the server closes the connection, also those that no client reads any more.
func (l *link) answer() {
	answers := bufio.NewReaderSize(l.server, 64<<10)
	for {
		m, err := readMessage(answers, 1)
		if err != nil {
			_ = l.client.Close()
			return
		}
		l.mu.Lock()
		fault := Pass // what comes without a question
		if len(l.turns) > 0 {
			fault = l.turns[0]
		}
		if fault == SwallowAnswer {
			l.mute = true
		}
		passes := !l.mute && fault != LoseAnswer && (fault != Conflict || m[0] == 'E' || m[0] == 'Z')
		fatal := false
		if m[0] == 'Z' && len(l.turns) > 0 {
			l.turns = l.turns[1:]
			fatal = len(l.turns) > 0 && l.turns[0] == Fatal
		}
		l.mu.Unlock()
		if passes {
			_, _ = l.client.Write(m)
		}
		switch {
		case fatal:
			l.fatal()
		case m[0] == 'Z' && fault == LoseAnswer:
			l.cut()
		}
	}
}

func (l *link) fatal() {
	_, _ = l.client.Write(message('E', "SFATAL\x00VFATAL\x00C57P01\x00Mterminating connection\x00\x00"))
	l.cut()
}

// message is a message of PostgreSQL's protocol.
func message(kind byte, body string) []byte {
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))
	return append(head, body...)
}

// readMessage reads a message whose length stands behind so many bytes.
func readMessage(r *bufio.Reader, before int) ([]byte, error) {
	head := make([]byte, before+4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	m := make([]byte, before+int(binary.BigEndian.Uint32(head[before:])))
	copy(m, head)
	_, err := io.ReadFull(r, m[min(len(head), len(m)):])
	return m, err
}
