package histories

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/auth19/idem/core"
)

// moves are what operation id may have done to its key.
func (o Op) moves(id int, c command) []move {
	one := func(step func(move, state) []state, words string) move {
		return move{step: step, words: words, op: id, command: c, recovery: o.Recovery}
	}
	answered := func(step func(move, state) []state, words string) move {
		m := one(step, words)
		m.answer = fmt.Sprint(o.Answer.Status, " ", o.Answer.Body)
		return m
	}
	failed := func(ends ...core.State) []move { // perhaps even before the claim
		begun, ended := one(claim, "claims"), one(end, "fails")
		begun.maybe, ended.maybe, ended.ends = true, true, ends
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
	case a == nil:
		return []move{one(depart, "never returns")}
	case a.Code == core.CodeCommitUnconfirmed:
		return []move{one(depart, "is told commit_unconfirmed")}
	case a.Code == core.CodeStoreUnavailable: // a claim that landed all the same is released, or parked when its lease ends
		return []move{one(refuse, "is told store_unavailable")}
	case a.Result == core.ResultCreated && a.Status < 500:
		ended := answered(end, "is the first to get")
		ended.ends = []core.State{core.Completed}
		return []move{one(claim, "claims"), ended}
	case a.Result == core.ResultReused && a.Status < 500:
		return []move{answered(replay, "gets again")}
	case a.Code == core.CodeInFlight:
		return []move{one(busy, "is told in_flight")}
	case a.Code == core.CodeKeyReused:
		return []move{one(mismatch, "is told key_reused")}
	case a.Code == core.CodeOutcomeUnknown:
		return []move{one(unknown, "is told outcome_unknown")}
	case a.Code == core.CodeKeyExpired:
		return []move{one(expired, "is told key_expired")}
	case a.Status < 500:
		return []move{answered(never, "is told what nobody expects")}
	case o.Recovery == core.Rollback: // undone; the server may take a moment to notice that its client is gone
		return []move{one(refuse, "is rolled back")}
	case a.Result == core.ResultUnknown:
		return failed(core.Unknown)
	case o.Recovery == core.Resume: // the next repeat goes on; proof that nothing was applied frees the key
		return failed(core.Running, core.Free)
	default:
		return failed(core.Free)
	}
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
	var known []string // commands
	for id, o := range ops {
		if o.Kind == Request && !slices.Contains(known, o.Command) {
			known = append(known, o.Command)
		}
		c := command(max(0, slices.Index(known, o.Command)))
		for i, m := range o.moves(id, c) {
			// Two lines for each client in the drawing: both moves are of the whole time.
			list = append(list, porcupine.Operation{ClientId: 2*o.Client + i, Input: m, Call: o.Call, Return: o.Return})
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
