package main

import (
	"go/constant"
	"go/token"
	"go/types"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// send is an instruction that gives a request its key.
type send struct {
	site ssa.Instruction
	key  ssa.Value // nil: each call of site makes its own key
	at   token.Pos // where the header is set
}

// freshKeys reports retry loops that send a new Idempotency-Key at each try. A call in a loop, of a function that sets the
// header, counts as one that sets it.
func (p *program) freshKeys() (found []*note) {
	var sends []send
	for _, f := range p.functions {
		eachInstruction(f, func(i ssa.Instruction) {
			if key := keyOf(i); key != nil {
				sends = append(sends, send{i, key, i.Pos()})
			}
		})
	}
	seen := map[ssa.Instruction]bool{}
	for len(sends) > 0 {
		s := sends[0]
		sends = sends[1:]
		if seen[s.site] {
			continue
		}
		seen[s.site] = true
		f := s.site.Parent()
		made := maker{program: p, seen: map[ssa.Value]bool{}}
		if s.key == nil {
			made.fresh = []ssa.Instruction{s.site}
		} else {
			made.follow(s.key)
		}
		again := slices.ContainsFunc(loopsOf(f), func(l loop) bool { return l.triesAgain() && made.freshIn(l) })
		if again || len(made.fresh) > 0 && p.retried(f) {
			found = append(found, &note{at: s.at, check: "freshkey", text: "each try sends a new Idempotency-Key, so each try is a " +
				"new command: make the key once, before the first try"})
			continue
		}
		for _, site := range p.callers[f] {
			for _, param := range made.params {
				sends = append(sends, send{site, argument(site, slices.Index(f.Params, param)), s.at})
			}
			if len(made.fresh) > 0 {
				sends = append(sends, send{site, nil, s.at})
			}
		}
	}
	return found
}

// keyOf returns the key that an instruction sends: Header.Set("Idempotency-Key", key), and the like of other clients.
func keyOf(i ssa.Instruction) ssa.Value {
	if update, ok := i.(*ssa.MapUpdate); ok && isNamed(update.Map.Type(), httpPath, "Header") && isKeyHeader(update.Key) {
		return update.Value
	}
	call, ok := i.(ssa.CallInstruction)
	if !ok {
		return nil
	}
	for n, arg := range call.Common().Args {
		if isKeyHeader(arg) && n+1 < len(call.Common().Args) {
			return call.Common().Args[n+1]
		}
	}
	return nil
}

func isKeyHeader(v ssa.Value) bool {
	c, ok := v.(*ssa.Const)
	return ok && c.Value != nil && c.Value.Kind() == constant.String &&
		textproto.CanonicalMIMEHeaderKey(constant.StringVal(c.Value)) == "Idempotency-Key"
}

// maker finds what a key is made of.
type maker struct {
	*program
	seen   map[ssa.Value]bool
	fresh  []ssa.Instruction // a random number, the time, a count of tries: other ones at each try
	kept   []*ssa.Phi        // variables that live longer than a round of a loop
	params []*ssa.Parameter
}

func (m *maker) follow(v ssa.Value) {
	if v == nil || m.seen[v] {
		return
	}
	m.seen[v] = true
	switch v := v.(type) {
	case *ssa.Parameter:
		m.params = append(m.params, v)
		return
	case *ssa.Phi:
		m.kept = append(m.kept, v)
	case *ssa.Call:
		if isFresh(callee(v)) || m.makes(v) {
			m.fresh = append(m.fresh, v)
		}
	case *ssa.Alloc:
		for _, stored := range storedAt(v) {
			m.follow(stored)
		}
		for _, ref := range *v.Referrers() {
			if element, ok := ref.(*ssa.IndexAddr); ok { // what fmt.Sprintf is given
				for _, stored := range storedAt(element) {
					m.follow(stored)
				}
			}
		}
		return
	}
	if i, ok := v.(ssa.Instruction); ok {
		for _, operand := range i.Operands(nil) {
			m.follow(*operand)
		}
	}
}

// makes reports whether a function of the app returns another key at each call.
func (m *maker) makes(call *ssa.Call) (yes bool) {
	targets, _ := m.targets(call)
	for _, f := range targets {
		inner := maker{program: m.program, seen: m.seen}
		eachInstruction(f, func(i ssa.Instruction) {
			if ret, ok := i.(*ssa.Return); ok {
				for _, r := range ret.Results {
					inner.follow(r)
				}
			}
		})
		yes = yes || len(inner.fresh) > 0
	}
	return yes
}

// freshIn reports whether a round of the loop makes another key. A variable that may keep its value from one round to the
// next does not: if key == "" { key = uuid.NewString() }.
func (m *maker) freshIn(l loop) bool {
	for _, phi := range m.kept {
		if phi.Block() != l.head {
			continue
		}
		if isInteger(phi.Type()) {
			return true // a count of tries
		}
		for i, edge := range phi.Edges {
			again := maker{program: m.program, seen: map[ssa.Value]bool{}}
			if again.follow(edge); l.body[phi.Block().Preds[i]] && slices.Contains(again.kept, phi) {
				return false
			}
		}
	}
	return slices.ContainsFunc(m.fresh, func(i ssa.Instruction) bool { return l.body[i.Block()] })
}

// isFresh reports whether a function returns something else at each call.
func isFresh(f *types.Func) bool {
	if f == nil || f.Pkg() == nil {
		return false
	}
	switch path, name := f.Pkg().Path(), f.Name(); {
	case strings.HasSuffix(path, "/uuid"), strings.Contains(path, "/uuid/"):
		return slices.Contains([]string{"New", "NewString", "NewRandom", "NewUUID", "NewV1", "NewV4", "NewV6", "NewV7"}, name)
	case strings.Contains(path, "ulid"), strings.Contains(path, "/xid"), strings.Contains(path, "ksuid"),
		strings.Contains(path, "nanoid"):
		return strings.HasPrefix(name, "New") || name == "Make"
	case path == "crypto/rand", path == "math/rand", path == "math/rand/v2":
		return true
	default:
		return is(f, "time", "Now")
	}
}

// retried reports whether a function is given to one of another module that calls it again: backoff.Retry and the like.
func (p *program) retried(f *ssa.Function) bool {
	call := p.lent[f]
	if call == nil {
		return false
	}
	to := callee(call)
	if to == nil || to.Pkg() == nil {
		return false
	}
	path := strings.ToLower(to.Pkg().Path())
	return strings.Contains(path, "retry") || strings.Contains(path, "backoff") || strings.HasPrefix(to.Name(), "Retry")
}

type loop struct {
	head *ssa.BasicBlock
	body map[*ssa.BasicBlock]bool
}

func loopsOf(f *ssa.Function) (all []loop) {
	for _, head := range f.Blocks {
		l := loop{head, map[*ssa.BasicBlock]bool{head: true}}
		todo := slices.DeleteFunc(slices.Clone(head.Preds), func(from *ssa.BasicBlock) bool { return !head.Dominates(from) })
		if len(todo) == 0 {
			continue
		}
		for ; len(todo) > 0; todo = todo[1:] {
			if !l.body[todo[0]] {
				l.body[todo[0]] = true
				todo = append(todo, todo[0].Preds...)
			}
		}
		all = append(all, l)
	}
	return all
}

// triesAgain reports whether a loop goes on because of an error or a status, and can end without one. A loop that has a
// command for each round goes on in both cases.
func (l loop) triesAgain() bool {
	if strings.HasPrefix(l.head.Comment, "rangeindex") && !l.waits() || strings.HasPrefix(l.head.Comment, "rangeiter") {
		return false // a loop over things has a key for each of them
	}
	for b := range l.body {
		branch, ok := b.Instrs[len(b.Instrs)-1].(*ssa.If)
		if !ok {
			continue
		}
		compared, ok := branch.Cond.(*ssa.BinOp)
		if !ok {
			continue
		}
		failed, well := b.Succs[0], b.Succs[1]
		switch {
		case types.Identical(compared.X.Type(), types.Universe.Lookup("error").Type()):
			if compared.Op == token.EQL {
				failed, well = well, failed
			}
			if l.body[failed] && l.leaves(well) {
				return true
			}
		case isStatus(compared.X):
			if l.body[failed] != l.body[well] {
				return true
			}
		}
	}
	return false
}

// waits reports whether the things that a loop is over are only the times between its tries.
func (l loop) waits() (yes bool) {
	for b := range l.body {
		for _, i := range b.Instrs {
			var index ssa.Value
			switch i := i.(type) {
			case *ssa.IndexAddr:
				index = i.Index
			case *ssa.Index:
				index = i.Index
			}
			if index == nil || !l.counts(index) {
				continue
			}
			if !isNamed(i.(ssa.Value).Type(), "time", "Duration") {
				return false
			}
			yes = true
		}
	}
	return yes
}

// counts reports whether a value is a number that a loop counts.
func (l loop) counts(v ssa.Value) bool {
	if next, ok := v.(*ssa.BinOp); ok {
		v = next.X
	}
	phi, ok := v.(*ssa.Phi)
	return ok && phi.Block() == l.head && isInteger(phi.Type())
}

func isInteger(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsInteger != 0
}

func isStatus(v ssa.Value) bool {
	load, ok := v.(*ssa.UnOp)
	if !ok {
		return false
	}
	field, ok := load.X.(*ssa.FieldAddr)
	return ok && fieldOf(field.X.Type(), field.Field).Name() == "StatusCode"
}

// leaves reports whether the loop can end behind a block without another round. It does not end there if it ends by a count:
// when all things are done, if sent == total.
func (l loop) leaves(from *ssa.BasicBlock) bool {
	seen := map[*ssa.BasicBlock]bool{l.head: true}
	for todo := []*ssa.BasicBlock{from}; len(todo) > 0; todo = todo[1:] {
		b := todo[0]
		if !l.body[b] {
			return true
		}
		if seen[b] {
			continue
		}
		seen[b] = true
		next := b.Succs
		if branch, ok := b.Instrs[len(b.Instrs)-1].(*ssa.If); ok {
			if compared, ok := branch.Cond.(*ssa.BinOp); ok && (l.counts(compared.X) || l.counts(compared.Y)) {
				next = slices.DeleteFunc(slices.Clone(next), func(to *ssa.BasicBlock) bool { return !l.body[to] })
			}
		}
		todo = append(todo, next...)
	}
	return false
}
