package main

import (
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// spawns are functions of other modules that run what they are given in a goroutine.
var spawns = []string{"Go", "TryGo", "AfterFunc", "Submit"}

// foreign is a call of a function of another module. It returns what comes from its arguments, and calls the functions that
// it is given.
func (a *activation) foreign(site ssa.CallInstruction, args []value, mode mode) value {
	f := callee(site)
	var labels label
	var tables []string
	for _, arg := range args {
		labels |= arg.all()
		tables = united(tables, arg.tables)
	}
	switch {
	case is(f, "context", "Background", "TODO"):
		labels = lost
	case !a.guarded && is(f, storePath, "TxFrom", "SQLTx", "PgxTx") && args[0].all()&(request|attempt) == 0:
		// Whoever asks so also asks whether there is an attempt. Where no guarded route leads, there need not be one.
	case asksForAttempt(f):
		a.asked(site, f, args[0])
		if f.Pkg().Path() == storePath {
			if labels = attempt; mode&inGoroutine != 0 {
				a.reportTx(site)
			}
		}
	case is(f, storePath, "Outside"):
		labels |= outside
	case f != nil && isNamed(receiver(f), gormPath, "DB"):
		labels = args[0].all()
		if f.Name() == "WithContext" || f.Name() == "Session" {
			given := args[1].all()
			if f.Name() == "WithContext" || given&(request|lost|outside) != 0 {
				labels &^= request | lost | outside
			}
			labels |= given & (request | lost | outside)
		}
		if f.Name() == "Begin" && labels&attempt != 0 {
			a.report(site, "txbegin", "Begin on the attempt's transaction fails (\"invalid transaction\"): the attempt commits with "+
				"the answer. Take Begin, Commit and Rollback out; a part that may fail goes into tx.Transaction")
		}
		if f.Name() == "Model" || f.Name() == "Table" {
			tables = a.tablesOf(site.Common().Args[1], args[1])
		}
		if f.Name() == "Raw" && args[1].labels&writeSQL != 0 {
			tables = nil // reported there, not where its rows are read
		}
		if f.Name() == "Clauses" && slices.ContainsFunc(args[1].types, isLocking) {
			labels |= locking
		}
	case f != nil && receiver(f) != nil && isRequest(argument(site, 0).Type()): // an interface's method does not name it
		switch f.Name() {
		case "Value", "Get", "MustGet": // what a context keeps is not the request
			labels &^= request | lost
		case "Set", "SetRequest":
			if keeps := labels & attempt; a.carries|keeps != a.carries {
				a.carries, a.changed = a.carries|keeps, true
			}
		}
	}
	a.touches(site, f, args, mode)
	a.calls(site, f, args, mode)
	switch {
	case is(f, corePath, "Call", "CallDo"):
		mode |= inCall
		a.invocation.add(step{at: site, seals: true})
	case is(f, corePath, "Checkpoint"):
		a.invocation.add(step{at: site, seals: true})
	case f != nil && slices.Contains(spawns, f.Name()):
		mode |= inGoroutine
	}
	for _, arg := range args {
		for _, c := range arg.functions {
			if len(c.function.Blocks) == 0 {
				continue
			}
			given := make([]value, len(c.function.Params))
			for i, p := range c.function.Params {
				given[i].types = a.handles(p.Type())
				if given[i].labels = passed(labels, p.Type()); isRequest(p.Type()) && !isNamed(p.Type(), "context", "Context") {
					given[i].labels |= request // a handler
				}
			}
			all := a.into(site, c, given, mode)
			labels |= all.all()
		}
	}
	return a.returned(labels, tables, site.Common().Signature().Results())
}

func isLocking(t types.Type) bool { return isNamed(t, gormPath+"/clause", "Locking") }

func receiver(f *types.Func) types.Type {
	if recv := f.Signature().Recv(); recv != nil {
		return recv.Type()
	}
	return nil
}

// passed are the labels that a value of a type can have.
func passed(labels label, t types.Type) label {
	switch b, basic := t.Underlying().(*types.Basic); {
	case basic && b.Info()&types.IsString != 0:
		return labels & (readSQL | writeSQL)
	case basic, types.Identical(t, types.Universe.Lookup("error").Type()):
		return 0
	}
	if isStatement(t) {
		return labels
	}
	return labels &^ (readSQL | writeSQL)
}

// returned is what a function of another module returns.
func (p *program) returned(labels label, tables []string, results *types.Tuple) (all value) {
	all.fields = map[int]value{}
	for i := range results.Len() {
		t := results.At(i).Type()
		one := value{labels: passed(labels, t), types: p.handles(t)}
		if one.labels&(readSQL|writeSQL) != 0 || isNamed(t, gormPath) {
			one.tables = tables
		}
		if results.Len() == 1 {
			return one
		}
		all.fields[i] = one
	}
	return all
}

// asksForAttempt reports whether a function of the library looks for the attempt in its first argument.
func asksForAttempt(f *types.Func) bool {
	return is(f, storePath, "Tx", "TxFrom", "SQLTx", "PgxTx", "Step", "StepDo") ||
		is(f, corePath, "Call", "CallDo", "Step", "Checkpoint", "Operation", "CommandHashOf", "RecoveryOf", "NotApplied", "Failed",
			"KeepRows", "Reference", "DeriveCall", "DeriveEvent", "InShadow")
}

// asked reports a context in which a function does not find the attempt.
func (a *activation) asked(site ssa.CallInstruction, f *types.Func, ctx value) {
	if labels := ctx.all(); labels&(request|attempt) != 0 || labels&lost == 0 && !a.guarded {
		return
	}
	a.report(site, "attemptctx", f.Name()+" is given a context that does not carry the attempt (context.Background(), a "+
		"*gin.Context, or one that was kept from before the request): pass the request's context")
}

func (a *activation) reportTx(site ssa.CallInstruction) {
	a.report(site, "txgoroutine", "a goroutine uses the attempt's transaction: the attempt may end first, and a transaction "+
		"serves one goroutine at a time. Do it in the handler itself, or after the answer with a transaction of its own")
}
