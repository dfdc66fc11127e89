package main

import (
	"go/types"
	"hash/maphash"
	"maps"
	"slices"

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
	writeSQL                   // a statement that writes, or locks the rows that it reads
	locking                    // a session of GORM with clause.Locking
)

// value is what is known of a value in a handler: of the whole, of the fields of a struct (also behind a pointer), and which
// functions it may be.
type value struct {
	labels    label
	fields    map[int]value
	functions []closure
	// types are those that an interface may hold; open if it may hold others. One that is an interface itself is of another
	// module, which alone knows what it holds: pgx.Tx.
	types []types.Type
	open  bool
	// origins are where the value was made, if that was before the request.
	origins []source
	tables  []string // of the statement, or of the session of GORM
}

// known reports whether the walk itself has seen how the value was made.
func (v value) known() bool { return len(v.types)+len(v.fields)+len(v.functions) > 0 }

// closure is a function with its free variables.
type closure struct {
	function *ssa.Function
	free     []value
	id       uint64 // tells closures apart
	depth    int    // closures in closures
}

const deepestClosure = 4

func closureOf(f *ssa.Function, free []value) closure {
	c := closure{function: f, free: free}
	for i, v := range free {
		for _, inner := range v.functions {
			if inner.depth >= deepestClosure { // a chain that grows in a loop has an end
				free[i] = value{labels: v.all()}
				break
			}
			c.depth = max(c.depth, inner.depth+1)
		}
	}
	c.id = hash(f, hashes(free))
	return c
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
		return value{labels: v.all() | other.all(), open: true}
	}
	v.labels |= other.labels
	v.open = v.open || other.open
	for _, t := range other.types {
		if !slices.ContainsFunc(v.types, func(own types.Type) bool { return types.Identical(own, t) }) {
			v.types = append(slices.Clip(v.types), t)
		}
	}
	v.origins, v.tables = united(v.origins, other.origins), united(v.tables, other.tables)
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
		if !slices.ContainsFunc(v.functions, func(own closure) bool { return own.id == c.id }) {
			v.functions = append(slices.Clip(v.functions), c)
		}
	}
	return v
}

// united returns the elements of both.
func united[T comparable](all, others []T) []T {
	for _, one := range others {
		if !slices.Contains(all, one) {
			all = append(slices.Clip(all), one)
		}
	}
	return all
}

var seed = maphash.MakeSeed()

func hash[T comparable](v T, rest uint64) uint64 {
	return maphash.Comparable(seed, [2]uint64{maphash.Comparable(seed, v), rest})
}

// hash tells values apart.
func (v value) hash() uint64 {
	h := uint64(v.labels)
	if v.open {
		h = hash("open", h)
	}
	for _, t := range v.types {
		h = hash(types.TypeString(t, nil), h)
	}
	for _, o := range v.origins {
		h = hash(o, h)
	}
	for _, t := range v.tables {
		h = hash(t, h)
	}
	for _, i := range slices.Sorted(maps.Keys(v.fields)) {
		h = hash(i, hash(v.fields[i].hash(), h))
	}
	for _, c := range v.functions {
		h = hash(c.id, h)
	}
	return h
}

func hashes(values []value) (h uint64) {
	for _, v := range values {
		h = hash(v.hash(), h)
	}
	return h
}
