package core

import (
	"bufio"
	"net"
	"net/http"
	"time"

	"github.com/auth19/idem/core/wire"
)

// Shield returns a writer that an adapter puts below the framework's own, from Enter to Leave, where handlers can get at
// that one: Gin's HandleContext gives it back to the context. An answer that does not come from the capture leaves before
// the attempt is decided, so no success passes, and what comes in its place says so. A failure passes: that of a
// timeout in front. What the capture streams passes, too.
func (c *Capture) Shield(w http.ResponseWriter) http.ResponseWriter {
	c.below = shield{Beside: Beside{w}, capture: c}
	return &c.below
}

type shield struct {
	Beside
	capture *Capture
	begun   bool
	refused bool
}

func (s *shield) Header() http.Header { return s.Writer.Header() }

func (s *shield) WriteHeader(status int) {
	switch {
	case s.refused || s.begun:
	case status >= http.StatusBadRequest || s.capture.streaming:
		s.begun = true
		if attempt := s.capture.attempt; !s.capture.streaming {
			limitSending(s.Writer, attempt.request, attempt.route.Deadline, time.Time{})
			if attempt.mayHaveChanged() {
				s.Writer.Header()[wire.HeaderResult] = resultUnknown // else a 402 would say that nothing was carried out (C-2)
			}
		}
		s.Writer.WriteHeader(status)
	case status >= http.StatusOK:
		s.refused = true
		h := s.Writer.Header()
		for name := range replayable { // of the other answer
			delete(h, name)
		}
		delete(h, "Content-Length")
		reply := s.capture.attempt.bypassed()
		_ = reply.SendTo(s.Writer, s.capture.attempt.request) // an error means that the connection is broken
	}
}

func (s *shield) Write(p []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	if s.refused {
		return 0, errAbandoned
	}
	return s.Writer.Write(p)
}

// Flush sends what has passed.
func (s *shield) Flush() {
	if s.begun {
		_ = http.NewResponseController(s.Writer).Flush() // a writer that cannot flush sends at the end
	}
}

// Hijack returns [http.ErrNotSupported].
func (s *shield) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrNotSupported }

// CloseNotify returns a channel that never fires: an attempt does not end when its client goes away.
func (s *shield) CloseNotify() <-chan bool { return nil }
