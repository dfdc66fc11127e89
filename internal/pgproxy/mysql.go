package pgproxy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// NewMySQL is [New] for MariaDB and MySQL, with the address that go-sql-driver takes, without TLS. A turn is a command: one
// text, which may have several statements, or a prepared statement. [Slow] keeps its answer back, [Fatal] says 1927, and
// [Conflict] 1213.
func NewMySQL(database string) (*Proxy, error) {
	at := mysqlHost.FindStringSubmatchIndex(database)
	if at == nil {
		return nil, errors.New("pgproxy: want user:password@tcp(host:port)/database")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return start(listener, database[at[2]:at[3]], database[:at[2]]+listener.Addr().String()+database[at[3]:], newMySQLLink), nil
}

var mysqlHost = regexp.MustCompile(`@tcp\(([^)]+)\)/`)

// mysqlLink is a connection with MySQL's packets.
type mysqlLink struct {
	proxy          *Proxy
	client, server net.Conn
	questions      *bufio.Reader
	passing        sync.Mutex // held while an answer is kept back

	mu        sync.Mutex
	turn      Fault             // the one whose answer comes
	preparing string            // the text of a question that prepares, until its answer comes
	prepared  map[uint32]string // text by the statement's number
	mute      bool              // nothing goes to the client any more
}

func newMySQLLink(p *Proxy, client, server net.Conn) session {
	return &mysqlLink{proxy: p, client: client, server: server, questions: bufio.NewReaderSize(client, 64<<10),
		prepared: map[uint32]string{}}
}

func (l *mysqlLink) cut() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func (l *mysqlLink) serve() {
	var answers sync.WaitGroup
	answers.Go(l.answer)
	for l.ask() {
	}
	answers.Wait()
	l.cut()
}

// Commands of the protocol.
const (
	comQuit     = 0x01
	comQuery    = 0x03
	comPrepare  = 0x16
	comExecute  = 0x17
	comLongData = 0x18
	comClose    = 0x19
)

// ask carries a question. It returns false if no other follows.
func (l *mysqlLink) ask() bool {
	question, err := readPacket(l.questions)
	l.mu.Lock()
	mute := l.mute
	l.mu.Unlock()
	switch {
	case err != nil: // the client is gone
		if mute {
			wait(l.proxy) // the server does not hear of it at once
		}
		l.cut()
		return false
	case mute:
		return true
	case question[3] != 0 || len(question) == 4: // of the greeting
		_, err = l.server.Write(question)
		return err == nil
	}
	var turn Turn
	switch text := question[5:]; question[4] {
	case comQuit, comLongData, comClose: // have no answer
		_, err = l.server.Write(question)
		return err == nil
	case comQuery:
		turn.SQL = statementsOf(string(text))
		turn.Cancel = strings.HasPrefix(turn.SQL[0], "KILL ")
	case comPrepare:
		l.mu.Lock()
		l.preparing = string(text)
		l.mu.Unlock()
	case comExecute:
		l.mu.Lock()
		turn.SQL = []string{l.prepared[binary.LittleEndian.Uint32(text)]}
		l.mu.Unlock()
	}
	return l.carry(turn, question)
}

// carry does with a turn what the proxy's rule says. It returns false if no other follows.
func (l *mysqlLink) carry(turn Turn, question []byte) bool {
	fault := l.proxy.judge(turn)
	switch {
	case fault == LoseQuestion:
		l.cut()
		return false
	case fault == Late:
		_ = l.client.Close()
		wait(l.proxy)
		_, _ = l.server.Write(question)
		if tcp, ok := l.server.(*net.TCPConn); ok {
			_ = tcp.CloseWrite() // the server reads it to the end, and leaves
		}
		return false
	case fault == SwallowAll:
		l.mu.Lock()
		l.mute = true
		l.mu.Unlock()
		return true
	case fault == Fatal:
		_, _ = l.client.Write(mysqlError(1927, "70100", "Connection was killed"))
		l.cut()
		return false
	case fault == Conflict && len(turn.SQL) == 0:
		fault = Pass
	case fault == Conflict:
		const undo = "ROLLBACK"
		question = append([]byte{byte(len(undo) + 1), 0, 0, 0, comQuery}, undo...)
	}
	l.mu.Lock()
	l.turn = fault
	l.mu.Unlock()
	if fault == Slow {
		l.passing.Lock()
		defer l.passing.Unlock()
	}
	_, err := l.server.Write(question)
	if fault == Slow {
		l.proxy.pause(turn, len(turn.SQL)-1)
	}
	return err == nil
}

// answer carries answers until the server closes the connection, also those that no client reads any more.
func (l *mysqlLink) answer() {
	answers := bufio.NewReaderSize(l.server, 64<<10)
	for {
		packet, err := readPacket(answers)
		if err != nil {
			_ = l.client.Close()
			return
		}
		l.mu.Lock()
		fault := l.turn
		if l.preparing != "" && len(packet) > 8 && packet[4] == 0 {
			l.prepared[binary.LittleEndian.Uint32(packet[5:])] = l.preparing
		}
		l.preparing = ""
		if fault == Conflict {
			l.turn, packet = Pass, mysqlError(1213, "40001", "Deadlock found when trying to get lock; try restarting transaction")
		}
		l.mute = l.mute || fault == SwallowAnswer
		mute := l.mute
		l.mu.Unlock()
		switch {
		case fault == LoseAnswer:
			wait(l.proxy) // the rest of a text of several statements
			l.cut()
		case !mute:
			l.passing.Lock()
			_, _ = l.client.Write(packet)
			l.passing.Unlock()
		}
	}
}

// statementsOf splits a text. In the library's, a semicolon ends a line.
func statementsOf(text string) (all []string) {
	for one := range strings.SplitSeq(text, ";\n") {
		all = append(all, strings.TrimSpace(one))
	}
	return slices.Clip(all)
}

// mysqlError is the answer to a command that failed.
func mysqlError(number uint16, state, text string) []byte {
	body := binary.LittleEndian.AppendUint16([]byte{0xff}, number)
	body = append(body, "#"+state+text...)
	return append([]byte{byte(len(body)), 0, 0, 1}, body...)
}

// readPacket reads a packet, with what goes on in others because it is long.
func readPacket(r *bufio.Reader) ([]byte, error) {
	const longest = 1<<24 - 1
	var all []byte
	for {
		head := make([]byte, 4)
		if _, err := io.ReadFull(r, head); err != nil {
			return nil, err
		}
		length := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
		packet := make([]byte, 4+length)
		copy(packet, head)
		if _, err := io.ReadFull(r, packet[4:]); err != nil {
			return nil, err
		}
		if all = append(all, packet...); length < longest {
			return all, nil
		}
	}
}
