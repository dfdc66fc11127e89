package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// label is what is known of a value in a handler.
type label uint8

const (
	request  label = 1 << iota // it is the request or its context, or has come from it
	attempt                    // it is the attempt's transaction, or writes through it
	outside                    // it has a context of gormstore.Outside: on purpose
	lost                       // a context that does not carry the attempt
	readSQL                    // a statement that reads
	writeSQL                   // a statement that writes
)

// value is what is known of a value in a handler: of the whole, of the fields of a struct (also behind a pointer), and which
// functions it may be.
type value struct {
	labels    label
	fields    map[int]value
	functions []closure
}

// closure is a function with its free variables.
type closure struct {
	function *ssa.Function
	free     []value
}

// all returns the labels of a value and of what is in it.
func (v value) all() label {
	labels := v.labels
	for _, f := range v.fields {
		labels |= f.all()
	}
	for _, c := range v.functions {
		for _, f := range c.free {
			labels |= f.all()
		}
	}
	return labels
}

func (v value) field(i int) value {
	if f, ok := v.fields[i]; ok {
		return f.with(v.labels)
	}
	return value{labels: v.labels}
}

func (v value) with(labels label) value {
	v.labels |= labels
	return v
}

const deepestValue = 5 // structs in structs

func (v value) join(other value) value { return v.joined(other, 0) }

func (v value) joined(other value, depth int) value {
	if depth > deepestValue {
		return value{labels: v.all() | other.all()}
	}
	v.labels |= other.labels
	if len(other.fields) > 0 {
		fields := maps.Clone(v.fields)
		if fields == nil {
			fields = map[int]value{}
		}
		for i, f := range other.fields {
			fields[i] = fields[i].joined(f, depth+1)
		}
		v.fields = fields
	}
	for _, c := range other.functions {
		if !slices.ContainsFunc(v.functions, func(own closure) bool { return own.key(0) == c.key(0) }) {
			v.functions = append(slices.Clip(v.functions), c)
		}
	}
	return v
}

// key tells values apart.
func (v value) key(depth int) string {
	if depth > deepestValue {
		return fmt.Sprint(v.all())
	}
	var b strings.Builder
	fmt.Fprint(&b, v.labels)
	for _, i := range slices.Sorted(maps.Keys(v.fields)) {
		fmt.Fprintf(&b, "{%d:%s}", i, v.fields[i].key(depth+1))
	}
	for _, c := range v.functions {
		b.WriteString(c.key(depth + 1))
	}
	return b.String()
}

func (c closure) key(depth int) string { return fmt.Sprintf("%p%s", c.function, keys(c.free, depth)) }

func keys(values []value, depth int) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = v.key(depth)
	}
	return "(" + strings.Join(parts, ",") + ")"
}
