package txn

import (
	"context"
	"errors"
	"reflect"

	"github.com/jackc/pgx/v5"
)

const setGuard = "set config.ConnConfig.Tracer = gormstore.PgxWriteGuard() before the pool is made, or with other tracers " +
	"multitracer.New(yours, gormstore.PgxWriteGuard())"

var (
	errNoPgxGuard = errors.New("it has no PgxWriteGuard, so a write past an attempt is not refused, and stays when the " +
		"attempt is rolled back: " + setGuard)
	errHalfPgxGuard = errors.New("the tracer around its PgxWriteGuard does not see batches and CopyFrom, so they are not " +
		"refused past an attempt: " + setGuard)
)

// AuditPgxGuard returns what a tracer of pgx lacks to guard all that is written over its connection.
func AuditPgxGuard(tracer pgx.QueryTracer) error {
	of := reflect.ValueOf(&tracer).Elem()
	switch {
	case !guards(of, reflect.TypeFor[pgx.QueryTracer](), 0):
		return errNoPgxGuard
	case !guards(of, reflect.TypeFor[pgx.BatchTracer](), 0) || !guards(of, reflect.TypeFor[pgx.CopyFromTracer](), 0):
		return errHalfPgxGuard
	}
	return nil
}

// guards reports whether a value is the guard, or traces by way of it: multitracer.Tracer, and an app's own, have it in a
// field.
func guards(v reflect.Value, kind reflect.Type, depth int) bool {
	if depth > maxWrapped || !v.IsValid() {
		return false
	}
	switch v.Kind() {
	case reflect.Interface:
		return guards(v.Elem(), kind, depth)
	case reflect.Pointer:
		return traces(v.Type(), kind) && guards(v.Elem(), kind, depth)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if guards(v.Index(i), kind, depth) {
				return true
			}
		}
		return false
	case reflect.Struct:
	default:
		return false
	}
	if v.Type() == reflect.TypeFor[pgxGuard]() {
		return true
	}
	if !traces(v.Type(), kind) {
		return false
	}
	own := false // it keeps tracers of this kind apart from others
	for field := range v.Type().Fields() {
		own = own || traces(field.Type, kind)
	}
	for field, in := range v.Fields() {
		if (traces(field.Type, kind) || !own) && guards(in, kind, depth+1) {
			return true
		}
	}
	return false
}

// traces reports whether a type is a tracer of a kind, or a list of such.
func traces(t, kind reflect.Type) bool {
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	return t.Implements(kind) || reflect.PointerTo(t).Implements(kind)
}

// warnUnguarded looks at the first connection over which a handler uses pgx: the handlers' own pool will hardly have a guard
// that the store's connections do not have.
func (c *Conn) warnUnguarded(below *pgx.Conn) {
	if !c.db.usesPgx.CompareAndSwap(false, true) {
		return
	}
	if err := AuditPgxGuard(below.Config().Tracer); err != nil {
		c.db.Gorm.Logger.Warn(context.Background(), "idem: gormstore: handlers use PgxTx, and the pool of the store: %v. "+
			"gormstore.AuditPgx says it at start", err)
	}
}
