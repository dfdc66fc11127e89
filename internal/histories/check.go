package histories

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/auth19/idem/core"
)

// infinity is when an operation returns whose client was never told.
const infinity = math.MaxInt64

// moves are what a request may have done to its key.
func (o Op) moves(id int) []move {
	one := func(step func(move, state) []state, words string) move {
		m := move{step: step, words: words, op: id, command: o.Command, recovery: o.Recovery}
		if o.Answer != nil {
			m.answer = fmt.Sprint(o.Answer.Status, " ", o.Answer.Body)
		}
		return m
	}
	ran := func(maybe bool, ends ...core.State) []move {
		begun, ended := one(claim, "claims"), one(end, "ends")
		begun.answer = ""
		begun.maybe, ended.maybe, ended.ends = maybe, maybe, ends
		if slices.Contains(ends, core.Completed) && (o.Answer == nil || o.Answer.Result != core.ResultCreated) {
			ended.answer = ""
		}
		return []move{begun, ended}
	}
	switch o.Kind {
	case Expire:
		if o.Expired {
			return []move{one(expire, "retention ends")}
		}
		return []move{one(forget, "retention does not end")}
	case Audit:
		m := one(audit, fmt.Sprintf("%d in the ledger, %d at the provider", o.Ledger, o.Provider))
		m.ledger, m.provider = o.Ledger, o.Provider
		return []move{m}
	}
	switch a := o.Answer; {
	case a == nil || a.Code == core.CodeCommitUnconfirmed:
		return ran(true, core.Completed, core.Free, core.Unknown, core.Running)
	case a.Code == core.CodeStoreUnavailable: // a claim that landed all the same is released, or parked when its lease ends
		return ran(true, core.Free, core.Unknown, core.Running)
	case a.Result == core.ResultCreated && a.Status < 500:
		return ran(false, core.Completed)
	case a.Result == core.ResultReused && a.Status < 500:
		return []move{one(replay, "gets again")}
	case a.Code == core.CodeInFlight:
		return []move{one(busy, "is told in_flight")}
	case a.Code == core.CodeKeyReused:
		return []move{one(mismatch, "is told key_reused")}
	case a.Code == core.CodeOutcomeUnknown:
		return []move{one(unknown, "is told outcome_unknown")}
	case a.Code == core.CodeKeyExpired:
		return []move{one(expired, "is told key_expired")}
	case a.Status < 500:
		return []move{one(never, "is told what nobody expects")}
	case a.Result == core.ResultUnknown:
		return ran(true, core.Unknown)
	case o.Recovery == core.Resume: // the next repeat goes on; proof that nothing was applied frees the key
		return ran(true, core.Running, core.Free)
	default:
		return ran(true, core.Free)
	}
}

// open reports whether the client does not know what became of its request: then that may still be to come.
func (o Op) open() bool {
	return o.Kind == Request && (o.Answer == nil || o.Answer.Status >= http.StatusInternalServerError)
}

// keys returns the history of each key.
func (h History) keys() map[string][]Op {
	keys := make(map[string][]Op)
	for _, o := range h.Ops {
		keys[o.Key] = append(keys[o.Key], o)
	}
	return keys
}

// operations are the moves of one key, for porcupine.
func operations(ops []Op) (list []porcupine.Operation) {
	lines := 0
	for _, o := range ops {
		lines = max(lines, 2*o.Client+2)
	}
	for id, o := range ops {
		for i, m := range o.moves(id) {
			operation := porcupine.Operation{ClientId: 2*o.Client + i, Input: m, Call: o.Call, Return: o.Return}
			if o.open() {
				// A line of its own in the drawing: the client does not wait for it.
				operation.ClientId, operation.Return = lines, infinity
				lines++
			}
			list = append(list, operation)
		}
	}
	return list
}

// Verdict is what is wrong with a history.
type Verdict struct {
	Illegal  []string // the keys whose history no order explains
	TooLarge []string // the keys for which that could not be found out within the time
}

// Check looks for an order of the operations of each key that the contract allows, for at most patience per key.
func Check(h History, patience time.Duration) (v Verdict) {
	for key, ops := range h.keys() {
		switch porcupine.CheckOperationsTimeout(model, operations(ops), patience) {
		case porcupine.Illegal:
			v.Illegal = append(v.Illegal, key)
		case porcupine.Unknown:
			v.TooLarge = append(v.TooLarge, key)
		}
	}
	slices.Sort(v.Illegal)
	slices.Sort(v.TooLarge)
	return v
}

// Keep writes the history of a key into a folder, as a file to be checked again and as a drawing, and returns the name
// of the drawing.
func (h History) Keep(folder, key string) (drawing string, err error) {
	one := History{Seed: h.Seed}
	for _, o := range h.Ops {
		if o.Key == key {
			one.Ops = append(one.Ops, o)
		}
	}
	file := filepath.Join(folder, fmt.Sprintf("seed-%d-%s", h.Seed, strings.ReplaceAll(key, "/", "-")))
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return "", err
	}
	if err := one.Save(file + ".json"); err != nil {
		return "", err
	}
	_, info := porcupine.CheckOperationsVerbose(model, operations(one.Ops), time.Minute)
	drawing = file + ".html"
	return drawing, porcupine.VisualizePath(model, info, drawing)
}
