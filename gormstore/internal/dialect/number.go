package dialect

import (
	"errors"
	"fmt"
	"reflect"
)

// Number returns the number of an error of MySQL or MariaDB; 0 for any other error. It is read by its name: the driver is no
// requirement of this module.
func Number(err error) int {
	number, _ := numbered(err)
	return number
}

// numbered is Number with the error's SQLSTATE.
func numbered(err error) (number int, state string) {
	for ; err != nil; err = errors.Unwrap(err) {
		if several, ok := any(err).(interface{ Unwrap() []error }); ok {
			for _, one := range several.Unwrap() {
				if number, state := numbered(one); number != 0 {
					return number, state
				}
			}
		}
		object := reflect.Indirect(reflect.ValueOf(err))
		if object.Kind() != reflect.Struct {
			continue
		}
		n, s := Field(object, "Number"), Field(object, "SQLState")
		if n.IsValid() && n.CanUint() && s.IsValid() && s.Kind() == reflect.Array {
			return int(n.Uint()), fmt.Sprintf("%s", s.Interface()) //nolint:gosec // 16 bits
		}
	}
	return 0, ""
}

// Field is a field of an error that is a struct, also of one embedded in it. There is none if an error of the app's embeds a
// nil pointer.
func Field(object reflect.Value, name string) (v reflect.Value) {
	if of, ok := object.Type().FieldByName(name); ok {
		v, _ = object.FieldByIndexErr(of.Index)
	}
	return v
}

// states are the SQLSTATEs by which the library knows an error whose own SQLSTATE says less.
var states = map[int]string{
	1048: "23502", // a column cannot be NULL
	1062: "23505", // a key is there
	1053: "57P01", // the server stops
	1927: "57P01", // the connection was killed
	1205: "55P03", // a lock was not granted in time
	1290: ReadOnly, 1792: ReadOnly, 1836: ReadOnly,
	1305: "3B001", // a savepoint is not there
	1317: "57014", // a statement was killed
	1146: "42P01", // a table is not there
	1242: "22012", // of a statement of the library that must fail
}
