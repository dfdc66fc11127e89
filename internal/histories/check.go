package histories

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// moves returns what an operation may have done to its key. blank is a move of this operation, without its step.
func (o Op) moves(blank move) (list []move) {
	switch o.Kind {
	case Expire:
		if o.Expired {
			return []move{blank.does(expire, "retention ends")}
		}
		return []move{blank.does(forget, "retention does not end")}
	case Refuse:
		return []move{blank.does(age, "gets too old")}
	case Audit:
		blank.ledger, blank.provider = o.Ledger, o.Provider
		return []move{blank.does(audit, fmt.Sprintf("%d in the ledger, %d at the provider", o.Ledger, o.Provider))}
	case Settle:
		return o.settlement(blank)
	}
	list = o.request(blank)
	if o.Twice {
		list = append(list, blank.does(depart, "comes twice"))
	}
	return list
}

// settlement returns what a settlement may have done.
func (o Op) settlement(blank move) (list []move) {
	switch a := o.Answer; {
	case a != nil && a.Status == http.StatusOK: // however often it was sent
		return []move{blank.does(settle, "settles")}
	case a != nil && a.Code == core.CodeNotFound:
		list = []move{blank.does(absent, "settles nothing")}
	case a != nil && a.Code != core.CodeNotSettleable && a.Code != core.CodeInFlight && a.Status < 500:
		list = []move{blank.does(never, "is told what nobody expects")}
	}
	if o.mayStillSettle() {
		list = append(list, blank.does(order, "orders a settlement"))
	}
	return list
}

// mayStillSettle reports whether a settlement may happen although no answer has confirmed it.
func (o Op) mayStillSettle() bool {
	a := o.Answer
	accepted := a != nil && a.Status == http.StatusOK
	return o.Kind == Settle && !accepted && (o.Twice || a == nil || a.Code == core.CodeCommitUnconfirmed)
}

// does returns the move with its step, and with words that describe the step.
func (m move) does(step func(move, state) []state, words string) move {
	m.step, m.words = step, words
	return m
}

// request returns what a request may have done.
func (o Op) request(blank move) []move {
	one := blank.does
	answered := func(step func(move, state) []state, words string) move {
		m := one(step, words)
		m.answer = text(o.Answer)
		return m
	}
	failed := func(ends ...store.State) []move { // perhaps it failed before the claim
		begun, ended := one(claim, "claims"), one(end, "fails")
		begun.maybe, ended.maybe, ended.ends = true, true, ends
		return []move{begun, ended}
	}
	// told is the answer of a repeat. It may also end an attempt that was taken over or settled, or whose handler has ended its
	// transaction. In Resume it needs no time: the end of the lease was stored, its answer was lost, and the next attempt was
	// quicker than the second try.
	told := func(m move) []move {
		if !o.Ends && o.Recovery != core.Resume && (!m.late || o.Recovery == core.Rollback) {
			return []move{m}
		}
		begun := one(claim, "claims")
		begun.maybe = true
		return []move{begun, m}
	}
	switch a := o.Answer; {
	case a == nil:
		return []move{one(depart, "never returns")}
	case a.Code == core.CodeCommitUnconfirmed:
		return []move{one(depart, "is told commit_unconfirmed")}
	case a.Code == core.CodeStoreUnavailable: // a claim that was written all the same is released, or parked after its lease
		return []move{one(refuse, "is told store_unavailable")}
	case a.Result == wire.ResultCreated && a.Status < 500:
		ended := answered(end, "is the first to get")
		ended.ends = []store.State{store.Completed}
		return []move{one(claim, "claims"), ended}
	case a.Result == wire.ResultReused && a.Status < 500:
		return told(answered(replay, "gets again"))
	case a.Code == core.CodeInFlight:
		return told(one(busy, "is told in_flight"))
	case a.Code == core.CodeKeyReused:
		return []move{one(mismatch, "is told key_reused")}
	case a.Code == core.CodeOutcomeUnknown:
		return told(one(unknown, "is told outcome_unknown"))
	case a.Code == core.CodeKeyTooOld:
		return []move{one(tooOld, "is told key_too_old")}
	case a.Code == core.CodeKeyExpired:
		return []move{one(expired, "is told key_expired")}
	case a.Code == otherOperation && a.Result == wire.ResultUnknown:
		ended := one(collide, "meets a row of another command")
		ended.ends = []store.State{store.Running} // the operation continues, and its client is told so
		return []move{one(claim, "claims"), ended}
	case a.Status < 500:
		return []move{answered(never, "is told what nobody expects")}
	case o.Recovery == core.Rollback: // undone; the server may take a moment to notice that its client is gone
		return []move{one(refuse, "is rolled back")}
	case a.Result == wire.ResultUnknown && o.Recovery == core.Resume: // half-done; or parked after its last attempt
		return failed(store.Running, store.Unknown)
	case a.Result == wire.ResultUnknown:
		return failed(store.Unknown)
	case o.Recovery == core.Resume: // the next repeat goes on; proof that nothing was applied frees the key
		return failed(store.Running, store.Free)
	default:
		return failed(store.Free)
	}
}

// otherOperation is the example apps' code for a row of another command under the same operation (D-3).
const otherOperation core.Code = "other_operation"

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
	var due []string   // answers of settlements
	var enders commands
	for _, o := range ops {
		if o.Kind == Request && !slices.Contains(known, o.Command) {
			if o.Ends {
				enders |= 1 << len(known)
			}
			known = append(known, o.Command)
		}
		if o.mayStillSettle() {
			due = append(due, text(o.Settled))
		}
	}
	next := decision(0)
	for id, o := range ops {
		blank := move{
			op: id, command: command(max(0, slices.Index(known, o.Command))), recovery: o.Recovery,
			call: o.Call, until: o.Return, late: o.Return-o.Call >= int64(lease), due: due, enders: enders,
		}
		if o.Kind == Settle {
			blank.answer = text(o.Settled)
		}
		if o.mayStillSettle() {
			blank.decision, next = next, next+1
		}
		for i, m := range o.moves(blank) {
			// Each client has some lines in the drawing, because all moves of an operation have the same time.
			list = append(list, porcupine.Operation{ClientId: mostMoves*o.Client + i, Input: m, Call: o.Call, Return: o.Return})
		}
	}
	return list
}

// mostMoves is how many moves an operation has at most.
const mostMoves = 3

// Verdict is what is wrong with a history.
type Verdict struct {
	Illegal  []string // the keys whose history no order explains
	TooLarge []string // the keys that could not be checked within the time
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
