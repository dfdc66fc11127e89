package main

import (
	"cmp"
	"go/token"
	"go/types"
	"maps"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// invocation is what a function does with some arguments.
type invocation struct {
	result  value
	steps   []step
	callers []caller
	done    *summary
}

// step is what a call does: in a function of the app, or by itself.
type step struct {
	at     ssa.CallInstruction
	inner  *invocation
	writes []string // tables, in the attempt's transaction
	reads  []string // tables, past the attempt
	note   *note    // of the read
	seals  bool     // it makes durable what stands in front of it: core.Call
}

type caller struct {
	invocation *invocation
	at         ssa.CallInstruction
}

func (v *invocation) add(s step) { v.steps = append(v.steps, s) }

// summary is what a visit does in the end.
type summary struct {
	writes map[string]bool
	reads  map[*note][]string
	seals  bool
}

func (v *invocation) sum() *summary {
	if v.done != nil {
		return v.done // of a function that calls itself it is not whole yet
	}
	v.done = &summary{writes: map[string]bool{}, reads: map[*note][]string{}}
	for _, s := range v.steps {
		of := s.sum()
		maps.Copy(v.done.writes, of.writes)
		maps.Copy(v.done.reads, of.reads)
		v.done.seals = v.done.seals || of.seals
	}
	return v.done
}

func (s step) sum() *summary {
	if s.inner != nil {
		return s.inner.sum()
	}
	of := &summary{writes: map[string]bool{}, reads: map[*note][]string{}, seals: s.seals}
	for _, table := range s.writes {
		of.writes[table] = true
	}
	if s.note != nil {
		of.reads[s.note] = s.reads
	}
	return of
}

// readsBehind reports the reads past the attempt that come behind a write of the same table in its transaction: they do not
// see it, and the answer that is made of them is recorded.
func (w *walk) readsBehind() {
	found := map[*note]string{}
	for _, v := range w.done {
		v.behind(found)
	}
	inOrder := func(a, b *note) int {
		return cmp.Or(int(a.at-b.at), slices.Compare(a.path, b.path))
	}
	for _, n := range slices.SortedFunc(maps.Keys(found), inOrder) {
		n.text += " reads " + found[n] + " past the attempt, which has written there: it does not see that, and the answer is " +
			"recorded without it. Read through the attempt, too (gormstore.Tx, SQLTx, PgxTx)"
		w.found = append(w.found, n)
	}
}

// behind looks at the calls of one function, and of what they reach.
func (v *invocation) behind(found map[*note]string) {
	for _, write := range v.steps {
		wrote := write.sum().writes
		if _, later := write.at.(*ssa.Defer); later || len(wrote) == 0 {
			continue
		}
		for _, read := range v.steps {
			for n, tables := range read.sum().reads {
				for _, table := range tables {
					if wrote[table] && before(write.at, read.at) && !failed(read.at.Block()) && !v.sealed(write, read) {
						found[n] = min(table, cmp.Or(found[n], table))
					}
				}
			}
		}
	}
}

// sealed reports whether a write is durable when a read comes.
func (v *invocation) sealed(write, read step) bool {
	return slices.ContainsFunc(v.steps, func(s step) bool {
		return s.sum().seals && (s.at == write.at || before(write.at, s.at)) && (s.at == read.at || before(s.at, read.at))
	})
}

// before reports whether a call of a function may come before another one, in the same round of a loop.
func before(a, b ssa.CallInstruction) bool {
	if a.Block() == b.Block() {
		for _, i := range a.Block().Instrs {
			switch i {
			case b:
				return false
			case a:
				return true
			}
		}
	}
	seen := map[*ssa.BasicBlock]bool{}
	var reaches func(from *ssa.BasicBlock) bool
	reaches = func(from *ssa.BasicBlock) bool {
		if seen[from] {
			return false
		}
		seen[from] = true
		return slices.ContainsFunc(from.Succs, func(to *ssa.BasicBlock) bool {
			return !to.Dominates(from) && (to == b.Block() || reaches(to))
		})
	}
	return reaches(a.Block())
}

// branches calls visit for each condition that led to a block, and whether it was true.
func branches(b *ssa.BasicBlock, inner func(cond ssa.Value, was bool)) {
	for ; b != nil; b = b.Idom() {
		if len(b.Preds) != 1 {
			continue
		}
		from := b.Preds[0]
		if choice, ok := from.Instrs[len(from.Instrs)-1].(*ssa.If); ok && from.Succs[0] != from.Succs[1] {
			inner(choice.Cond, from.Succs[0] == b)
		}
	}
}

// failed reports whether a block runs behind an error only: where a statement has failed, the attempt's transaction may be
// of no use.
func failed(b *ssa.BasicBlock) (yes bool) {
	branches(b, func(cond ssa.Value, was bool) {
		switch cond := cond.(type) {
		case *ssa.BinOp:
			yes = yes || isError(cond.X.Type()) && isNil(cond.Y) && was == (cond.Op == token.NEQ)
		case *ssa.Call: // errors.Is(err, ErrTaken)
			yes = yes || was && len(cond.Call.Args) > 0 && isError(cond.Call.Args[0].Type())
		}
	})
	return yes
}

func isError(t types.Type) bool { return types.Identical(t, types.Universe.Lookup("error").Type()) }

// dead reports whether a block of a guarded handler never runs, because it is for those that have no attempt.
func (a *activation) dead(b *ssa.BasicBlock) (yes bool) {
	if !a.writes {
		return false
	}
	if known, ok := a.unreached[b]; ok {
		return known
	}
	branches(b, func(cond ssa.Value, was bool) {
		from := a.sources(cond, nil)
		yes = yes || len(from) > 0 && !slices.ContainsFunc(from, func(s source) bool { return !saysAttempt(s.value, was) })
	})
	a.unreached[b] = yes
	return yes
}

// saysAttempt reports whether a value is one that tells whether there is an attempt, and was is the answer outside of one.
func saysAttempt(v ssa.Value, was bool) bool {
	switch v := v.(type) {
	case *ssa.Extract:
		call, ok := v.Tuple.(*ssa.Call)
		return ok && !was && v.Index == 1 && (is(callee(call), storePath, "TxFrom", "SQLTx", "PgxTx") ||
			is(callee(call), corePath, "Operation", "RecoveryOf"))
	case *ssa.Call:
		return was && is(callee(v), corePath, "InShadow")
	}
	return false
}

// places are where a finding can be mended: in generated code, where the app calls it.
func (p *program) places(n *note) (all []token.Pos) {
	if !p.isGenerated(n.at) {
		return []token.Pos{n.at}
	}
	seen := map[*invocation]bool{}
	for todo := []*invocation{n.in}; len(todo) > 0; todo = todo[1:] {
		v := todo[0]
		if v == nil || seen[v] {
			continue
		}
		seen[v] = true
		for _, c := range v.callers {
			if at := c.at.Pos(); at.IsValid() && !p.isGenerated(at) {
				all = append(all, at)
			} else {
				todo = append(todo, c.invocation)
			}
		}
	}
	if len(all) == 0 { // a router calls it
		all = append(all, n.at)
	}
	return all
}

func (p *program) isGenerated(at token.Pos) bool {
	return p.generated[p.ssa.Fset.Position(at).Filename]
}
