// Package histories sends money requests to instances of the example apps under faults, and checks what comes of it.
//
// There is one world (world.go): the apps on Gin and on Echo over one PostgreSQL, behind proxies. It has faults (faults.go):
// connections are cut at any byte, pass nothing any more, or carry requests twice; apps are killed, paused and stopped; the
// database stops, is killed, or fails over. Clients (clients.go) send intents (intents.go), and hang up now and then. Some
// handlers hang until their deadline, never succeed, or end their own transaction. Operators settle unknown operations.
//
// There are two checks:
//
//   - TestHistories makes a short [History] of what each client and operator sent and was answered, and when (generate.go).
//     [Check] asks porcupine whether the operations of each key have an order that the contract allows: see model.go.
//   - TestLongRun sends any number of requests, by package idemclient, too (longrun.go). It counts: each answer is compared
//     with the earlier ones, and in the end all effects with the answers (count.go). Duplicates, losses and contradictions
//     must be 0.
//
// The seed decides what is sent and which faults happen, but not their timing. So a history that fails is kept as a file,
// and every test run checks it again; a long run prints the rows and log lines of what it finds.
//
//	go test ./internal/histories                    the short form of both
//	go test ./internal/histories -run '^TestHistories$' -v -count=1 -for 10m -round 12s -seed 7 -timeout 0
//	go test ./internal/histories -run '^TestLongRun$' -v -count=1 -requests 1000000 -faults 5s -seed 7 -timeout 0
package histories

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
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

// op begins an operation of an intent.
func (i intent) op(kind Kind, client int) Op {
	return Op{Kind: kind, Client: client, Key: i.name(), Recovery: i.kind.Recovery()}
}

// Answer is what a client was told.
type Answer struct {
	Status int       `json:"status"`
	Result string    `json:"result,omitempty"` // Idempotency-Result
	Code   core.Code `json:"code,omitempty"`   // of a problem
	Body   string    `json:"body,omitempty"`
	header http.Header
}

// recorded reports whether repeats get this answer, too.
func (a Answer) recorded() bool {
	return a.Result == wire.ResultCreated || a.Result == wire.ResultReused
}

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
