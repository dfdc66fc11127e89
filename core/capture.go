package core

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/auth19/idem/core/wire"
)

// replayable are the answer headers that are recorded.
var replayable = map[string]bool{
	"Content-Type":        true,
	"Content-Encoding":    true,
	"Content-Language":    true,
	"Content-Disposition": true,
	"Location":            true,
	"Etag":                true,
	"Link":                true,
	"Last-Modified":       true,
}

// neverReplayed reports whether a header belongs to one answer only: credentials, the date, rate limits, hop-by-hop
// headers (RFC 9110, section 7.6.1), and the headers that this library sets itself.
func neverReplayed(name string) bool {
	switch name {
	case "Set-Cookie", "Set-Cookie2", "Www-Authenticate", "Proxy-Authenticate", "Authentication-Info", "Date", "Age",
		"Retry-After", "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Content-Length", wire.HeaderReplayed, wire.HeaderResult, wire.HeaderProblem:
		return true
	}
	return strings.HasPrefix(name, "Ratelimit") || strings.HasPrefix(name, "X-Ratelimit") ||
		strings.HasPrefix(name, "X-Rate-Limit")
}

// errAnswerTooLarge is the error of Write if a Rollback handler writes more than MaxAnswer.
var errAnswerTooLarge = errors.New("idem: the answer is above MaxAnswer; it will be rolled back")

// Capture takes a handler's answer and holds it back until it is recorded. It is the [http.ResponseWriter] that
// adapters put below their framework's writer.
//
// The handler works on a copy of the headers. So the capture can tell the handler's headers from those of outer
// middleware, and nothing needs to be restored after a panic. A Capture has no Unwrap method, so http.ResponseController
// cannot bypass it.
type Capture struct {
	attempt *Attempt
	outer   http.ResponseWriter
	below   shield // see Shield
	header  http.Header
	status  int
	body    []byte
	size    int

	limit      int
	canStream  bool         // Park and Resume: an answer above the cap is sent at once, or without its body
	flushable  bool         // the route allows streaming: Flush sends
	breaker    deadliner    // by which an answer can be broken off; nil: nothing is sent before it is recorded
	durable    func() error // Resume: makes durable what stands before the bytes that are sent next
	refused    error        // of durable, at a write: its bytes are lost, and the answer would have a hole
	streaming  bool         // bytes have been sent
	until      time.Time    // when streaming ends; zero if the server ends it earlier
	latest     time.Time    // when it ends at the latest, whatever the handler sets
	ends       time.Time    // when the handler wants writing to end; zero if it has not said so
	unread     error        // streaming has ended then, because the client does not read
	overflow   bool
	rendering  bool // the handler has returned, and the app renders its error
	bodiless   bool // the answer is above the cap, and could not be sent at once
	unrendered bool
	relayed    bool  // what was streamed, or dropped, begins with a problem of another service: see relaysUnfinished
	detached   bool  // the handler's request is not the attempt's: see Attempt.abandoned
	answer     Reply // the result: see reply
	problem    Code  // of the problem that has replaced the answer

	begun   beginning // the headers when the answer began
	foreign []string  // headers of outer middleware whose names are not canonical

	keyName string // the echo of the key, on a streamed answer
	key     []string
}

// Header returns the headers of the answer. The handler may change them.
func (c *Capture) Header() http.Header { return c.header }

// Written reports whether the answer has begun.
func (c *Capture) Written() bool { return c.status != 0 }

// Status returns the status of the answer, 0 while it has not begun.
func (c *Capture) Status() int { return c.status }

// Size returns the number of body bytes written, including those of a streaming answer.
func (c *Capture) Size() int { return c.size }

// Unrendered declares that the handler failed with an error that nothing inside the capture renders. What the client will
// see is not known here, so the attempt counts as failed, and outer middleware answers.
func (c *Capture) Unrendered() { c.unrendered = true }

// WriteHeader begins the answer. A 1xx status is ignored, and a second call changes nothing. Like net/http, it
// panics if the status does not have three digits: if such a status were recorded, every replay would panic. In the app's
// rendering of an error such a status is 500.
func (c *Capture) WriteHeader(status int) {
	switch {
	case status >= 100 && status <= 999:
	case c.rendering:
		status = http.StatusInternalServerError
	default:
		panic(fmt.Sprintf("idem: invalid WriteHeader code %d", status))
	}
	if c.status == 0 && status >= 200 {
		c.status = status
		c.canonicalize()
		c.begun.keep(c.header)
	}
}

// late are the recorded headers that http.Error changes even after the answer has begun. net/http would ignore such a
// change, because the first headers have been sent.
var late = [...]string{"Content-Type", "Content-Encoding", "Etag", "Last-Modified"}

// beginning keeps the headers that must not change after the answer has begun. A copy of all headers would cost an
// allocation for each request.
type beginning struct {
	noted     bool
	late      [len(late)][]string
	announced string // the Content-Length
}

func (b *beginning) keep(h http.Header) {
	b.noted, b.announced = true, h.Get("Content-Length")
	for i, name := range late {
		b.late[i] = h[name]
	}
}

// restore undoes later changes of these headers.
func (b *beginning) restore(h http.Header) {
	if !b.noted {
		return
	}
	for i, name := range late {
		if b.late[i] == nil {
			delete(h, name)
		} else {
			h[name] = b.late[i]
		}
	}
}

// Write adds a copy of p to the body. If the answer has not begun, it begins with status 200. Errors:
// [http.ErrBodyNotAllowed] if the status is 204 or 304; in Rollback an error if the body is above MaxAnswer, and the
// attempt is then rolled back; for a streaming answer the errors of the connection, and in Resume an error if what
// stands before the bytes cannot be made durable, inside a step for instance. After that one no write succeeds, and the
// attempt has failed.
func (c *Capture) Write(p []byte) (int, error) {
	if err := c.grow(len(p)); err != nil {
		return 0, err
	}
	if c.streaming {
		return c.send(p)
	}
	if !c.bodiless {
		c.body = append(c.body, p...)
	}
	return len(p), nil
}

// WriteString is Write for a string.
func (c *Capture) WriteString(s string) (int, error) {
	if err := c.grow(len(s)); err != nil {
		return 0, err
	}
	if c.streaming {
		return c.send([]byte(s))
	}
	if !c.bodiless {
		c.body = append(c.body, s...)
	}
	return len(s), nil
}

// grow makes room for n more bytes. Above the cap it begins to send the answer if the recovery allows that. Where the answer
// could not be broken off, it drops the body.
func (c *Capture) grow(n int) error {
	c.WriteHeader(http.StatusOK)
	if c.bodyForbidden() {
		return http.ErrBodyNotAllowed
	}
	fits := !c.streaming && !c.overflow && len(c.body)+n <= c.limit
	if !fits && n > 0 && c.refused == nil && c.breakable() {
		c.refused = c.makeDurable()
	}
	if c.refused != nil {
		return c.refused
	}
	c.size += n
	if fits || c.streaming || c.bodiless {
		return nil
	}
	c.overflow = true
	switch {
	case !c.canStream:
		c.body = nil
		return errAnswerTooLarge
	case !c.breakable():
		c.relayed = relaysUnfinished(c.header, c.body)
		c.body, c.bodiless = nil, true
		return nil
	}
	return c.stream()
}

// breakable reports whether an answer that is sent now can be broken off, and ends its writing with the attempt, or when the
// handler wants. A writer may offer deadlines that the one behind it has not.
func (c *Capture) breakable() bool {
	if !c.streaming && c.breaker != nil && c.breaker.SetWriteDeadline(sooner(c.latest, c.ends)) != nil {
		c.breaker = nil
	}
	return c.breaker != nil
}

// bodyForbidden reports whether the answer is only its header. Such a one cannot be broken off once it has left.
func (c *Capture) bodyForbidden() bool {
	return c.status == http.StatusNoContent || c.status == http.StatusNotModified
}

// makeDurable makes durable what stands before the bytes that are sent next.
func (c *Capture) makeDurable() error {
	if c.durable == nil {
		return nil
	}
	return c.durable()
}

// stream sends what was held back, of an answer that is breakable. Later writes go straight to the client. If it does not
// read, they end with the attempt's deadline: the handler does not see its context while it writes.
func (c *Capture) stream() error {
	c.streaming = true
	c.relayed = relaysUnfinished(c.header, c.body)
	reply := c.reply()
	reply.keyName, reply.key = c.keyName, c.key
	err := reply.WriteTo(c.outer)
	c.body = nil
	return c.noteUnread(err)
}

// send sends more of a streaming answer.
func (c *Capture) send(p []byte) (int, error) {
	n, err := c.outer.Write(p)
	return n, c.noteUnread(err)
}

// noteUnread returns err, the error of a write to the client. If the time for streaming was over, the client has not read,
// and noteUnread keeps the error for EventOverdue.
func (c *Capture) noteUnread(err error) error {
	if err != nil && !c.until.IsZero() && !time.Now().Before(c.until) {
		c.unread = err
	}
	return err
}

// Flush does nothing, unless the route allows streaming: then it sends what was written, and later writes are sent at once
// . It does nothing either where an answer that was not recorded could not be broken off: over HTTP/1.0, with a status
// that has no body, and behind a writer that hides the server's.
func (c *Capture) Flush() {
	if !c.flushable || c.refused != nil || c.bodyForbidden() || !c.breakable() {
		return
	}
	c.WriteHeader(http.StatusOK)
	if !c.streaming && (c.makeDurable() != nil || c.stream() != nil) { // what is held back may still be sent later
		return
	}
	_ = c.noteUnread(http.NewResponseController(c.outer).Flush()) // a writer that cannot flush sends at the end
}

// Hijack returns [http.ErrNotSupported]: an answer that bypasses the capture cannot be recorded.
func (c *Capture) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

// canonicalize gives the handler's headers their canonical names: a map of headers holds any spelling, and on the wire they
// are the same. Those of outer middleware stay as they are.
func (c *Capture) canonicalize() {
	for _, name := range misspelled(c.header) {
		if !slices.Contains(c.foreign, name) {
			canonical := http.CanonicalHeaderKey(name)
			c.header[canonical] = slices.Concat(c.header[canonical], c.header[name])
			delete(c.header, name)
		}
	}
}

// misspelled returns the names of h that are not canonical, sorted.
func misspelled(h http.Header) (names []string) {
	for name := range h {
		if http.CanonicalHeaderKey(name) != name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// reply returns the captured answer as it goes to the client, with all headers that the handler added or changed. Unless
// the answer is streaming, the handler has finished, and its headers become the reply's without a copy.
func (c *Capture) reply() *Reply {
	r := &c.answer
	if *r = (Reply{Status: c.finalStatus(), problem: c.problem}); c.unrendered {
		return r
	}
	before := c.outer.Header()
	c.canonicalize()
	c.begun.restore(c.header)
	r.Header, r.Body = c.header, c.body
	if c.streaming {
		// With its length, a streamed answer is whole before it is recorded, and without chunks it ends with its connection.
		r.Header = maps.Clone(c.header)
		delete(r.Header, "Transfer-Encoding")
		r.removed = append(r.removed, "Content-Length", "Transfer-Encoding") // of outer middleware
	}
	delete(r.Header, "Content-Length") // net/http counts
	if c.bodiless {
		for _, name := range late { // they describe the body
			delete(r.Header, name)
		}
		r.Header["Connection"] = []string{"close"}
	}
	for _, name := range ours { // of the answer of a provider, say, that the handler passes on
		delete(r.Header, name)
	}
	for name := range before {
		if len(c.header[name]) == 0 {
			r.removed = append(r.removed, name)
		}
	}
	for name, values := range r.Header {
		if len(values) == 0 || slices.Equal(before[name], values) {
			delete(r.Header, name)
		}
	}
	return r
}

// brokeOff reports whether the handler has written fewer bytes than it announced. This happens when a handler relays an
// upstream that breaks off. net/http would break the answer off, too.
func (c *Capture) brokeOff() bool {
	length := c.header.Get("Content-Length")
	if c.begun.noted {
		length = c.begun.announced
	}
	if length == "" {
		return false
	}
	announced, err := strconv.Atoi(length)
	return err == nil && announced > c.size && !c.bodyForbidden()
}

// relaysUnfinished reports whether the answer is the problem of another service, which has not finished.
func (c *Capture) relaysUnfinished() bool { return c.relayed || relaysUnfinished(c.header, c.body) }

// replace makes r the answer, unless bytes have been sent.
func (c *Capture) replace(r *Reply) {
	if c.streaming {
		return
	}
	c.header = c.outer.Header().Clone()
	maps.Copy(c.header, r.Header)
	c.status, c.body, c.unrendered, c.begun, c.problem = r.Status, r.Body, false, beginning{}, r.problem
}

// breakOff ends the answer of a handler that has panicked. A streaming one is broken off, so that no client takes a part of
// it for the whole. A panic would not do: Gin's recovery swallows [http.ErrAbortHandler]. Any other is a 500, whatever
// the handler had written.
func (c *Capture) breakOff() {
	if c.streaming {
		_ = c.breaker.SetWriteDeadline(time.Unix(1, 0))
		return
	}
	c.status = http.StatusInternalServerError
}

// SetReadDeadline is that of the writer in front.
func (c *Capture) SetReadDeadline(deadline time.Time) error {
	return Beside{c.outer}.SetReadDeadline(deadline)
}

// EnableFullDuplex is that of the writer in front.
func (c *Capture) EnableFullDuplex() error { return Beside{c.outer}.EnableFullDuplex() }

// SetWriteDeadline is that of the writer in front, but not later than the attempt's deadline. An earlier one counts for the
// answer as well.
func (c *Capture) SetWriteDeadline(deadline time.Time) error {
	if c.ends = deadline; deadline.IsZero() || deadline.After(c.latest) {
		c.ends, deadline = time.Time{}, c.latest
	}
	return Beside{c.outer}.SetWriteDeadline(deadline)
}

// finalStatus is the status that the client sees. It is 200 if the handler wrote nothing, as in net/http. For an unrendered
// error it is 500, because what outer middleware will answer is not known here.
func (c *Capture) finalStatus() int {
	switch {
	case c.unrendered:
		return http.StatusInternalServerError
	case c.status == 0:
		return http.StatusOK
	}
	return c.status
}

// recorded returns what a repeat will get: the reply with the headers of the allowlist, or only status and Location if
// the body could not be kept.
func (m *Module) recorded(c *Capture, r *Reply) Answer {
	a := Answer{Status: r.Status}
	if !c.streaming && !c.overflow {
		a.Body, a.Header = r.Body, m.recordedHeader(r.Header)
		return a
	}
	a.Partial = true
	location := r.Header["Location"]
	if c.streaming {
		location = c.outer.Header()["Location"] // as it left
	}
	if kept := (http.Header{"Location": location}); len(location) > 0 && headerSize(kept) <= c.limit {
		a.Header = kept
	}
	return a
}

// headersOverflow reports whether the recorded headers make the answer larger than its cap.
func (m *Module) headersOverflow(c *Capture) bool {
	c.canonicalize()
	before, size := c.outer.Header(), len(c.body)
	for name, values := range c.header {
		if m.replays[name] && !slices.Equal(before[name], values) {
			size += lineSize(name, values)
		}
	}
	return size > c.limit
}

// headerSize returns how much of MaxAnswer headers use: the bytes of their names and values.
func headerSize(h http.Header) (size int) {
	for name, values := range h {
		size += lineSize(name, values)
	}
	return size
}

func lineSize(name string, values []string) (size int) {
	for _, value := range values {
		size += len(name) + len(value)
	}
	return size
}

// recordedHeader returns the headers of h that are recorded.
func (m *Module) recordedHeader(h http.Header) http.Header {
	for name := range h {
		if !m.replays[name] { // seldom: then the answer needs headers of its own
			h = maps.Clone(h)
			maps.DeleteFunc(h, func(name string, _ []string) bool { return !m.replays[name] })
			break
		}
	}
	return h
}
