// Package histories checks random histories of the example apps against the contract.
//
// Clients send commands to several instances over PostgreSQL, and operators settle unknown operations. Proxies between them
// cut connections at any byte, leave them open without passing anything, and send requests twice. Instances are killed,
// paused and stopped. The database stops, starts again, or fails over. Some handlers hang until their deadline, never
// succeed, or end their own transaction. A [History] has what each client and operator sent and was answered, and when.
// [Check] asks porcupine whether the operations of each key have an order that the contract allows: see model.go. The seed
// decides what is sent and which faults happen, but not their timing. So a history that fails is kept as a file, and every
// test run checks it again.
//
//	go test ./internal/histories -run TestHistories                      the short form
//	go test ./internal/histories -run TestHistories -count=1 -for=10m -seed=7
package histories

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/harness"
)

// Kind is what an operation is.
type Kind string

// The kinds of operations.
const (
	Request Kind = "request" // a client's request, with or without an answer
	Settle  Kind = "settle"  // an operator settles the operation of a key
	Expire  Kind = "expire"  // retention ends for a key, as if days had gone by
	Refuse  Kind = "refuse"  // first requests with a timed key are refused from now on
	Audit   Kind = "audit"   // the effects of a key are counted, when all is over
)

// Op is an operation of a history, as its client or operator saw it.
type Op struct {
	Kind     Kind          `json:"kind"`
	Client   int           `json:"client"`
	Key      string        `json:"key"` // with its principal: "customer-1/key-7"
	Recovery core.Recovery `json:"recovery"`
	Call     int64         `json:"call"`   // in ns, since the history began
	Return   int64         `json:"return"` // in ns

	Command string  `json:"command,omitempty"` // of a Request: equal texts are equal commands
	Answer  *Answer `json:"answer,omitempty"`  // of a Request or Settle; nil where no whole answer came
	Error   string  `json:"error,omitempty"`   // of one without an answer; for readers
	Twice   bool    `json:"twice,omitempty"`   // of a Request or Settle: it was sent a second time, unseen
	Ends    bool    `json:"ends,omitempty"`    // of a Request: its handler ends the attempt's transaction itself

	Settled *Answer `json:"settled,omitempty"` // of a Settle: the answer that repeats shall get; nil: not applied

	Expired  bool `json:"expired,omitempty"`  // of Expire: there was a recorded answer, and it is gone
	Ledger   int  `json:"ledger,omitempty"`   // of Audit: entries in the app's own ledger
	Provider int  `json:"provider,omitempty"` // of Audit: charges by the provider
}

// Answer is what a client was told.
type Answer = harness.Answer

// text identifies the answer: answers that a client cannot tell apart have the same text. It is "" if there is no answer.
func text(a *Answer) string {
	if a == nil {
		return ""
	}
	return fmt.Sprint(a.Status, " ", a.Body)
}

// History is all operations of a run, in no order.
type History struct {
	Seed uint64 `json:"seed"`
	Ops  []Op   `json:"ops"`
}

// summary counts the answers.
func (h History) summary() map[string]int {
	counts := make(map[string]int)
	for _, o := range h.Ops {
		switch {
		case o.Kind == Settle && o.Answer != nil:
			counts[fmt.Sprint("settle ", o.Answer.Status)]++
		case o.Kind != Request:
			counts[string(o.Kind)]++
		case o.Ends && o.Answer != nil && o.Answer.Code == core.CodeOutcomeUnknown:
			counts["ended by its handler"]++
		case o.Recovery == core.Resume && o.Answer != nil && o.Answer.Code == core.CodeOutcomeUnknown:
			counts["parked after its attempts"]++
		case o.Answer == nil:
			counts["no answer"]++
		default:
			counts[strings.TrimSpace(fmt.Sprint(o.Answer.Status, " ", cmp.Or(string(o.Answer.Code), o.Answer.Result)))]++
		}
	}
	return counts
}

// text lists the operations on a key by their begin, for a log of which nothing else is kept. A line has its call and return
// in ms, the client, the command, and the answer.
func (h History) text(key string) string {
	ops := h.keys()[key]
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	var commands []string
	var lines strings.Builder
	for _, o := range ops {
		if o.Kind == Request && !slices.Contains(commands, o.Command) {
			commands = append(commands, o.Command)
			fmt.Fprintf(&lines, "%v is %s\n", command(len(commands)-1), o.Command)
		}
		fmt.Fprintf(&lines, "%d-%d %d %s\n", o.Call/1e6, o.Return/1e6, o.Client, o.short(commands))
	}
	return lines.String()
}

// short is what an operation was and was told, without when and by whom.
func (o Op) short(commands []string) string {
	words := string(o.Kind)
	switch o.Kind {
	case Request:
		words = command(max(0, slices.Index(commands, o.Command))).String()
	case Settle:
		words = fmt.Sprintf("settle as %q", text(o.Settled))
	case Expire:
		return fmt.Sprint(words, " ", o.Expired)
	case Audit:
		return fmt.Sprintf("%s: %d in the ledger, %d at the provider", words, o.Ledger, o.Provider)
	case Refuse:
		return words
	}
	if o.Twice {
		words += " twice"
	}
	switch a := o.Answer; {
	case a == nil:
		return words + ": no answer"
	case o.Kind == Request && a.Code == "":
		return fmt.Sprint(words, ": ", text(a), " ", a.Result)
	default:
		return fmt.Sprint(words, ": ", a.Status, " ", a.Code, " ", a.Result)
	}
}

// Load reads a history that was kept.
func Load(file string) (h History, err error) {
	read, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(read, &h)
	}
	return h, err
}

// Save keeps a history.
func (h History) Save(file string) error {
	written, err := json.MarshalIndent(h, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, written, 0o600)
}
