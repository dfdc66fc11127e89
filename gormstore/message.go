package gormstore

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Message is one delivery of a message.
type Message struct {
	// Source is the publisher or topic within which the id is unique. 1 to 255 bytes of UTF-8.
	Source string

	// ID is the publisher's id of the message, the same in every delivery. 1 to 255 bytes of UTF-8.
	ID string

	// Payload is compared by its SHA-256: the same id with another payload is an error, never a duplicate.
	Payload []byte

	// Handler is the name of the handler that processes the message, if the broker's library knows it. If another handler in
	// the same process has the same group and source, Process returns [ErrTwoHandlers]. Optional.
	Handler string

	// Published is when the message was published, by the publisher's clock. Zero if it is not known: then Process cannot
	// refuse a message that is older than markers live.
	Published time.Time
}

// maxName is the longest part of a marker's key, in bytes.
const maxName = 255

// badName returns what is wrong with a part of a marker's key; "" if it is valid.
func badName(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxName:
		return fmt.Sprintf("has %d bytes of at most %d", len(name), maxName)
	case !utf8.ValidString(name), strings.ContainsRune(name, 0):
		return "is not valid UTF-8, or has a zero byte"
	}
	return ""
}

func (m Message) validate() error {
	var errs []error
	if why := badName(m.ID); why != "" {
		errs = append(errs, fmt.Errorf("ID %s", why))
	}
	if why := badName(m.Source); why != "" {
		errs = append(errs, fmt.Errorf("Source %s", why))
	}
	if year := m.Published.Year(); year < 1 || year > 9999 {
		errs = append(errs, fmt.Errorf("Published is in the year %d", year))
	}
	if errs != nil {
		return fmt.Errorf("%w: %w", ErrMessageInvalid, errors.Join(errs...))
	}
	return nil
}
