package main

import (
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

const updating = `update\s+(only\s+)?\S+\s+(as\s+\S+\s+|\S+\s+)?set`

var (
	comments = regexp.MustCompile(`(?s)^(\s|--[^\n]*(\n|$)|/\*.*?\*/)+`)
	writing  = regexp.MustCompile(`(?is)^(insert\s+into|` + updating + `|delete\s+from|merge\s+into|replace\s+into|truncate)\b`)
	within   = regexp.MustCompile(`(?is)^with\s.*\b(insert\s+into|` + updating + `|delete\s+from)\b`)
	reading  = regexp.MustCompile(`(?is)^(select|with|values|table|show|explain|set|begin|commit|rollback|savepoint|release|` +
		`lock|discard|pragma)\b`)
	locks = regexp.MustCompile(`(?is)\bfor\s+(no\s+key\s+update|update|key\s+share|share)\b`)
)

// statement says whether a text is a statement of SQL, and which.
func statement(text string) label {
	text = comments.ReplaceAllString(text, "")
	switch {
	case writing.MatchString(text), within.MatchString(text):
		return writeSQL
	case reading.MatchString(text) && locks.MatchString(text): // the lock must be the attempt's
		return writeSQL
	case reading.MatchString(text):
		return readSQL
	}
	return 0
}

// runs are the names of what runs a statement and reads its rows: INSERT ... RETURNING.
var runs = regexp.MustCompile(`^(Named|Must|New)?(Query|Exec|Get|Select|Raw|Scan)`)

// gormWrites are the methods of GORM that write: of *gorm.DB, of an association, and of gorm.G.
var gormWrites = []string{"Create", "CreateInBatches", "Save", "FirstOrCreate", "Update", "Updates", "UpdateColumn",
	"UpdateColumns", "Delete", "Exec", "Append", "Replace", "Clear"}

// gormReads are those that read rows. With clause.Locking they lock them.
var gormReads = []string{"First", "Take", "Last", "Find", "FindInBatches", "Scan", "Row", "Rows", "Pluck", "FirstOrInit"}

// touches reports a call of another module that writes past the attempt, and keeps which tables a call writes and reads.
func (a *activation) touches(site ssa.CallInstruction, f *types.Func, args []value, mode mode) {
	if f == nil || len(args) == 0 {
		return
	}
	handle := a.handleOf(site, f, args)
	switch {
	case a.isWrite(site, f, args):
		a.write(site, f, handle, mode)
		if handle&attempt != 0 {
			a.invocation.add(step{at: site, writes: a.tablesOfCall(site, f, args, true)})
		}
	case handle&(attempt|outside) != 0 || mode != 0 || !a.writes:
	default:
		if tables := a.tablesOfCall(site, f, args, false); len(tables) > 0 {
			a.invocation.add(step{at: site, reads: tables, note: a.note(site, "strayread", f.Name())})
		}
	}
}

func ofGORM(f *types.Func) bool {
	return f.Pkg() != nil && (f.Pkg().Path() == gormPath || f.Pkg().Path() == storePath)
}

// handleOf is what is known of the connection that a call uses.
func (a *activation) handleOf(site ssa.CallInstruction, f *types.Func, args []value) label {
	handle, recv := args[0].all(), receiver(f)
	if recv == nil { // sqlx.NamedExec(db, query, arg), gormstore.CreateOnce(tx, row)
		handle = 0
		for i, arg := range site.Common().Args {
			if !isNamed(arg.Type(), "context", "Context") {
				handle |= args[i].all()
			}
		}
	} else if ofGORM(f) && types.IsInterface(recv) && len(args) > 1 { // gorm.G[T](db).Create(ctx, row)
		handle |= args[1].all() & (request | outside)
	}
	return handle
}

// write reports a write past the attempt.
func (a *activation) write(site ssa.CallInstruction, f *types.Func, handle label, mode mode) {
	switch {
	case handle&attempt != 0:
		if mode&inGoroutine != 0 {
			a.reportTx(site)
		}
	case handle&outside != 0 || mode&inCall != 0 || !a.writes:
	case mode&inGoroutine != 0:
		a.report(site, "straywrite", f.Name()+" in a goroutine is no part of the attempt: it is not undone with it, and may "+
			"come after the answer")
	case ofGORM(f) && handle&request != 0:
		a.report(site, "straywrite", f.Name()+" has the request's context, but is not in the attempt's transaction: the write "+
			"guard refuses it (gormstore.ErrOutsideTransaction). Write through gormstore.Tx")
	default:
		a.report(site, "straywrite", f.Name()+" goes past the attempt: it does not write through its transaction "+
			"(gormstore.Tx, SQLTx, PgxTx, Step)")
	}
}

func (a *activation) isWrite(site ssa.CallInstruction, f *types.Func, args []value) bool {
	var text label
	for i, arg := range site.Common().Args {
		if b, ok := arg.Type().Underlying().(*types.Basic); ok && b.Info()&types.IsString != 0 {
			text |= args[len(args)-len(site.Common().Args)+i].labels
		}
	}
	name, recv := f.Name(), receiver(f)
	if recv != nil && isStatement(recv) {
		text |= args[0].labels
	}
	switch {
	case is(f, storePath, "CreateOnce"):
		return true
	case f.Pkg() != nil && f.Pkg().Path() == gormPath && recv != nil:
		return text&writeSQL != 0 || slices.Contains(gormWrites, name) && text&readSQL == 0 ||
			args[0].all()&locking != 0 && slices.Contains(gormReads, name)
	case text&writeSQL != 0 && runs.MatchString(name):
		return true
	case strings.Contains(name, "Exec"):
		return text&readSQL == 0 && (has(f.Signature().Results(), "database/sql", "Result") ||
			has(f.Signature().Results(), pgxPath+"/pgconn", "CommandTag"))
	}
	return name == "CopyFrom" && has(f.Signature().Params(), pgxPath, "Identifier") ||
		name == "SendBatch" && has(f.Signature().Params(), pgxPath, "Batch")
}

// isStatement reports whether a value of the type keeps the statement that it was made of.
func isStatement(t types.Type) bool {
	n := namedOf(t)
	return n != nil && strings.HasSuffix(n.Name(), "Stmt")
}

func has(tuple *types.Tuple, path, name string) bool {
	for v := range tuple.Variables() {
		if isNamed(v.Type(), path, name) {
			return true
		}
	}
	return false
}
