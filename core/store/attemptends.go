package store

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"
)

// AttemptEnd is how an attempt ended that did not end its operation. It holds no text of the handler's.
type AttemptEnd struct {
	Fence    int64
	At       time.Time // by the store's clock; of a process that is gone, the end of its lease
	How      AttemptHow
	Status   int    // of the handler's answer; 0 without one
	Code     string // of the problem that took the answer's place; "" if none did
	Instance Instance
}

// String says how it ended, in words, with status and code.
func (e AttemptEnd) String() string {
	said := e.How.String()
	if e.Status != 0 {
		said += " " + strconv.Itoa(e.Status)
	}
	if e.Code != "" {
		said += ", " + e.Code
	}
	return said
}

// AttemptHow says how an attempt ended.
type AttemptHow uint8

// How an attempt ended. The numbers are in databases.
const (
	EndAnswered  AttemptHow = iota + 1 // with Status, or Code
	EndPanic                           // its handler panicked
	EndDeadline                        // its deadline passed
	EndLeaseLost                       // it could not renew its lease
	EndGone                            // nothing is known: its process has died, or could not reach the store
	EndLimit                           // its handler did not run: attempts, or time, were used up
	EndItself                          // its handler has ended the transaction itself
)

// String says it in words.
func (h AttemptHow) String() string {
	switch h {
	case EndAnswered:
		return "answered"
	case EndPanic:
		return "panic"
	case EndDeadline:
		return "deadline"
	case EndLeaseLost:
		return "lease lost"
	case EndGone:
		return "process gone"
	case EndLimit:
		return "not run any more"
	case EndItself:
		return "its handler ended the transaction itself"
	}
	return "not known"
}

// Instance stands for one instance of an app, from its start to its end: the first bytes of the owners of its attempts.
type Instance [4]byte

// String returns 8 hex digits.
func (i Instance) String() string { return hex.EncodeToString(i[:]) }

// Instance is that of the attempt.
func (o Owner) Instance() Instance { return Instance(o[:4]) }

// Of the ends of an operation's attempts, the first one and the last ones are kept.
const keptEnds = 15

// endsVersion is the form of Record.Ends. A form of a newer release is left as it is, and shows nothing.
const endsVersion = 1

// AttemptEnds are those of the record's operation, in their order: the first one, and the last 15.
func (r Record) AttemptEnds() (ends []AttemptEnd) {
	if len(r.Ends) == 0 || r.Ends[0] != endsVersion {
		return nil
	}
	for rest := r.Ends[1:]; len(rest) > 0; {
		e, n := decodeEnd(rest)
		if n == 0 {
			return ends
		}
		ends, rest = append(ends, e), rest[n:]
	}
	return ends
}

// WithEnd returns the record's Ends with one more.
func (r Record) WithEnd(e AttemptEnd) []byte {
	if len(r.Ends) > 0 && r.Ends[0] != endsVersion {
		return r.Ends
	}
	ends := append(r.AttemptEnds(), e)
	out := []byte{endsVersion}
	for i, e := range ends {
		if i == 0 || i >= len(ends)-keptEnds {
			out = encodeEnd(out, e)
		}
	}
	return out
}

// EndsBefore returns the Ends for who takes over, or settles, a record that runs, and whose lease has run out: an attempt
// that has not said how it ended is gone. nil: no attempt has to say anything.
func (r Record) EndsBefore() []byte {
	if r.Stored != Running || r.Recovery == Rollback {
		return nil
	}
	if ends := r.AttemptEnds(); len(ends) > 0 && ends[len(ends)-1].Fence == r.Fence {
		return r.Ends
	}
	return r.WithEnd(AttemptEnd{Fence: r.Fence, At: r.LeaseUntil, How: EndGone, Instance: r.Owner.Instance()})
}

func encodeEnd(to []byte, e AttemptEnd) []byte {
	to = binary.AppendVarint(to, e.Fence)
	to = binary.AppendVarint(to, e.At.UnixMicro())
	to = append(to, byte(e.How))
	to = binary.AppendVarint(to, int64(e.Status))
	to = append(to, e.Instance[:]...)
	code := e.Code[:min(len(e.Code), 255)]
	return append(append(to, byte(len(code))), code...) //nolint:gosec // at most 255
}

// decodeEnd returns the first end, and its length; 0 if it is none.
func decodeEnd(from []byte) (e AttemptEnd, n int) {
	number := func() (v int64) {
		if n < 0 {
			return 0
		}
		v, read := binary.Varint(from[n:])
		if n += read; read <= 0 {
			n = -1
		}
		return v
	}
	bytes := func(length int) (b []byte) {
		if n < 0 || len(from)-n < length {
			n = -1
			return make([]byte, length)
		}
		n += length
		return from[n-length : n]
	}
	e.Fence, e.At = number(), time.UnixMicro(number())
	e.How, e.Status = AttemptHow(bytes(1)[0]), int(number())
	e.Instance = Instance(bytes(4))
	e.Code = string(bytes(int(bytes(1)[0])))
	return e, max(n, 0)
}
