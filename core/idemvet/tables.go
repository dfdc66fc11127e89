package main

import (
	"go/constant"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
	"gorm.io/gorm/schema"
)

const name = `((?:["\w]+\.)?["\w]+)`

var (
	quoted  = regexp.MustCompile(`'[^']*'`)
	written = regexp.MustCompile(`(?i)\b(?:(?:insert|merge|replace)\s+into|update(\s+only)?|delete\s+from|truncate)\s+` + name)
	column  = regexp.MustCompile(`gorm:"(-|[^"]*(serializer|type):)`) // no list of rows
	read    = regexp.MustCompile(`(?i)\b(?:from|join)\s+` + name)
)

// tablesIn returns the tables that a statement writes, or reads.
func tablesIn(text string, kind label) (all []string) {
	if kind == 0 {
		return nil
	}
	text, names := quoted.ReplaceAllString(text, ""), read
	if kind&writeSQL != 0 { // none, if it only locks
		names = written
	}
	for _, found := range names.FindAllStringSubmatch(text, -1) {
		all = united(all, []string{plain(found[len(found)-1])})
	}
	return all
}

// plain is the name of a table without quotes and the schema.
func plain(name string) string {
	name = strings.ToLower(strings.ReplaceAll(name, `"`, ""))
	return name[strings.LastIndex(name, ".")+1:]
}

// tablesOfCall returns the tables that a call writes, or reads: those of its text, or of its models.
func (a *activation) tablesOfCall(site ssa.CallInstruction, f *types.Func, args []value, writes bool) (all []string) {
	common, recv := site.Common(), receiver(f)
	if is(f, storePath, "CreateOnce") {
		return a.withLists(common.Args[1], args[1])
	}
	texts := args[len(args)-len(common.Args):]
	onGORM := recv != nil && is(f, gormPath, f.Name()) && !a.isHandle(recv)
	if !onGORM || slices.Contains([]string{"Exec", "Raw"}, f.Name()) {
		if !writes && (onGORM || !runs.MatchString(f.Name())) {
			return nil // the rows of Raw are read by Scan
		}
		if recv != nil && isStatement(recv) {
			all = args[0].tables
		}
		for i, arg := range common.Args {
			if b, ok := arg.Type().Underlying().(*types.Basic); ok && b.Info()&types.IsString != 0 &&
				(texts[i].labels&writeSQL != 0) == writes {
				all = united(all, texts[i].tables)
			}
		}
		return all
	}
	switch {
	case isNamed(recv, gormPath, "Association"),
		writes == (slices.Contains(gormReads, f.Name()) || f.Name() == "Count"): // a read that locks writes nothing
		return nil
	case types.IsInterface(recv): // gorm.G[T](db)
		if named, ok := types.Unalias(common.Value.Type()).(*types.Named); ok && named.TypeArgs().Len() > 0 {
			return a.tableOf(named.TypeArgs().At(0))
		}
		return nil
	case len(args[0].tables) > 0:
		return args[0].tables
	case slices.Contains([]string{"Create", "CreateInBatches", "Save", "FirstOrCreate"}, f.Name()):
		return a.withLists(common.Args[1], args[1])
	case len(args) > 1 && (writes || !slices.Contains([]string{"Scan", "Row", "Rows", "Pluck", "Count"}, f.Name())):
		return a.tablesOf(common.Args[1], args[1])
	}
	return nil
}

// tablesOf returns the tables of a model, or the one that a text names.
func (a *activation) tablesOf(v ssa.Value, known value) (all []string) {
	for _, from := range a.sources(v, nil) {
		if said, ok := from.value.(*ssa.Const); ok && said.Value != nil && said.Value.Kind() == constant.String {
			all = united(all, []string{plain(constant.StringVal(said.Value))})
		}
	}
	if !types.IsInterface(v.Type()) {
		known.types = append(slices.Clip(known.types), v.Type())
	}
	for _, t := range known.types {
		all = united(all, a.tableOf(t))
	}
	return all
}

// withLists returns the tables of a model, and of the lists in it, which GORM creates with it: an order's lines.
func (a *activation) withLists(v ssa.Value, known value) (all []string) {
	all = a.tablesOf(v, known)
	for _, t := range append(slices.Clip(known.types), v.Type()) {
		of, ok := element(t).Underlying().(*types.Struct)
		for i := 0; ok && i < of.NumFields(); i++ {
			list, isList := types.Unalias(of.Field(i).Type()).(*types.Slice)
			if isList && a.inApp(element(list)) && !column.MatchString(of.Tag(i)) {
				all = united(all, a.tableOf(list))
			}
		}
	}
	return all
}

// element is the type of what a value points to, or is a list of.
func element(t types.Type) types.Type {
	for {
		switch under := types.Unalias(t).(type) {
		case *types.Pointer:
			t = under.Elem()
		case *types.Slice:
			t = under.Elem()
		case *types.Array:
			t = under.Elem()
		default:
			return t
		}
	}
}

// tableOf returns the table of a model as GORM names it, if that does not depend on the app's settings.
func (p *program) tableOf(t types.Type) []string {
	t = element(t)
	named := namedOf(t)
	if named == nil {
		return nil
	}
	if _, ok := t.Underlying().(*types.Struct); !ok {
		return nil
	}
	own := types.NewPointer(t)
	if p.ssa.MethodSets.MethodSet(own).Lookup(named.Pkg(), "TableName") == nil {
		return []string{schema.NamingStrategy{}.TableName(named.Name())}
	}
	var says []string
	if f := p.ssa.LookupMethod(own, named.Pkg(), "TableName"); f != nil {
		inner := f
		for range 2 { // a method of the value has one of the pointer around it
			eachInstruction(inner, func(i ssa.Instruction) {
				if ret, ok := i.(*ssa.Return); ok {
					if said, ok := ret.Results[0].(*ssa.Const); ok && said.Value != nil {
						says = []string{plain(constant.StringVal(said.Value))}
					}
				} else if call, ok := i.(*ssa.Call); ok && inner == f && f.Synthetic != "" && call.Call.StaticCallee() != nil {
					inner = call.Call.StaticCallee()
				}
			})
		}
	}
	return says
}
