package store

import "time"

// Note is what an operator has written on an operation: "I am on it". Who and when stay as long as the history does.
type Note struct {
	ID    ID       // of the operation
	Token [16]byte // of the form that was sent: the same again changes nothing
	Who   string
	Text  string    // "": it has gone with the answer
	At    time.Time // by the store's clock; Annotate ignores it
}
