package txn

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"reflect"
	"strings"
)

// A database/sql pool can take its connections from another pool, as stdlib.OpenDBFromPool of pgx does. If it has no
// limit itself, the library would reserve no places: attempts would take every connection of the pool below, and handlers
// that need a second one would wait for each other until their deadline. database/sql does not say what it connects with.
// So the connector is looked at by reflection, once, in New. Not enough instead: DB.Driver, which is the same with and
// without a pool below, and a setting, which nobody makes who does not know. TestPoolBelowThePool pins the fields of Go
// 1.26 and pgx v5. If a later release of either has others, the test fails, and in an app nothing is found and nothing is
// refused.

// knownLimit returns an error if the pool takes its connections from a pgxpool, and may take more than that has (F-7).
func knownLimit(pool *sql.DB, limit int) error {
	inner, below := innerPool(reflect.ValueOf(pool).Elem().FieldByName("connector"), 0)
	switch {
	case !below || limit > 0 && (inner == 0 || limit <= inner):
		return nil
	case limit == 0:
		return fmt.Errorf("the *sql.DB has no limit, and takes its connections from a pgxpool, which has %d: so the store cannot "+
			"reserve any of them for its answers, and handlers would wait for each other; call SetMaxOpenConns of the *sql.DB "+
			"before New, with MaxConns of the pgxpool or less", inner)
	}
	return fmt.Errorf("SetMaxOpenConns(%d) is more than the pgxpool below has, %d: handlers would wait for each other; use "+
		"MaxConns of the pgxpool or less", limit, inner)
}

// maxWrapped bounds how many connectors may be wrapped around each other.
const maxWrapped = 8

// innerPool looks for a pgxpool in a connector, and in the connectors that it wraps. limit is its number of
// connections, 0 where that cannot be seen.
func innerPool(v reflect.Value, depth int) (limit int, found bool) {
	for v.IsValid() && (v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer) {
		if v.IsNil() {
			return 0, false
		}
		v = v.Elem()
	}
	if !v.IsValid() || v.Kind() != reflect.Struct || depth > maxWrapped {
		return 0, false
	}
	if v.Type().Name() == "Pool" && strings.HasSuffix(v.Type().PkgPath(), "/pgxpool") {
		if n := v.FieldByName("maxConns"); n.IsValid() && n.CanInt() {
			limit = int(n.Int())
		}
		return limit, true
	}
	connector := reflect.TypeFor[driver.Connector]()
	for _, field := range v.Fields() {
		if t := field.Type(); !t.Implements(connector) && !strings.HasSuffix(t.String(), "pgxpool.Pool") {
			continue
		}
		if limit, found = innerPool(field, depth+1); found {
			return limit, found
		}
	}
	return 0, false
}
