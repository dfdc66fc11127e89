package main

import (
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// A value that the app has made at its start, as its queries and their connection, is followed back to where it was made:
// an app may have one for the attempt, and another one beside it.

// part is a field of a value that was made somewhere, or of all values of its type.
type part struct {
	of    source
	field *types.Var
}

const mostOrigins = 8

// ofField returns where the value of a field was made, for a struct that was made there; nil: it is not known.
func (p *program) ofField(structs []source, t types.Type, i int) (all []source) {
	if len(structs) == 0 {
		structs = []source{{}}
	}
	field := fieldOf(t, i)
	for _, one := range structs {
		key := part{one, field}
		found, known := p.made[key]
		if !known {
			f := flow{program: p, seen: map[source]bool{}}
			p.made[key] = nil // it may lead back to itself
			if cell, ok := one.value.(*ssa.Alloc); ok && types.Identical(structOf(cell.Type()), structOf(t)) {
				f.field(cell, i, one.at)
			} else {
				for _, store := range p.fields[field] {
					f.follow(store.Val, nil)
				}
			}
			found = f.found
			p.made[key] = found
		}
		all = united(all, found)
	}
	return all
}

func structOf(t types.Type) types.Type {
	if ptr, ok := t.Underlying().(*types.Pointer); ok {
		t = ptr.Elem()
	}
	return t
}

// madeAt returns what is known of a value of a type that was made before the request.
func (p *program) madeAt(t types.Type, origins []source) (v value) {
	if len(origins) == 0 || len(origins) > mostOrigins || isRequest(t) {
		return v
	}
	v.origins = origins
	if !types.IsInterface(t) {
		return v
	}
	for _, o := range origins {
		switch t := o.value.Type(); {
		case isNil(o.value):
		case !types.IsInterface(t), p.isHandle(t):
			v.types = append(v.types, t)
		default:
			v.open = true
		}
	}
	return v
}

func isNil(v ssa.Value) bool {
	said, ok := v.(*ssa.Const)
	return ok && said.IsNil()
}

// isHandle reports whether a type is an interface of another module for a connection: pgx.Tx, gorm.ConnPool.
func (p *program) isHandle(t types.Type) bool {
	name := namedOf(t)
	of, ok := t.Underlying().(*types.Interface)
	if !ok || name == nil || p.ofApp(name.Pkg()) {
		return false
	}
	for method := range of.Methods() {
		results := method.Signature().Results()
		if has(results, "database/sql", "Result") || has(results, pgxPath+"/pgconn", "CommandTag") {
			return true
		}
	}
	return false
}
