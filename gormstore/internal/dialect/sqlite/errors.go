package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/auth19/idem/gormstore/internal/dialect"
)

const constraint = 19

// interrupted is the code of a statement whose context has ended.
const interrupted = 9

// class names an error by its code. A context that ends interrupts the statement.
func class(err error) string {
	code := codeOf(err)
	if code == 0 && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return ""
	}
	return fmt.Sprintf("SQLite error %d", cmp.Or(code, interrupted))
}

func ofCommand(err error) bool {
	const mismatch, outOfRange = 20, 25
	return slices.Contains([]int{constraint, mismatch, outOfRange}, codeOf(err))
}

func isThere(err error) bool {
	return codeOf(err) == constraint && strings.Contains(err.Error(), "UNIQUE constraint failed: idempotency_record.id")
}

func isNull(err error, column string) bool {
	return codeOf(err) == constraint && strings.Contains(err.Error(), "NOT NULL constraint failed: idempotency_record."+column)
}

// ofStatement: no such column, say.
func ofStatement(err error) bool {
	const logic = 1
	return codeOf(err) == logic
}

// codeOf returns the primary result code of an error of SQLite; 0 for any other error. Every driver names it Code, but
// it is a method of one and a field of another, and each has a type of its own; or the error itself is the code.
func codeOf(err error) int {
	for ; err != nil; err = errors.Unwrap(err) {
		if several, ok := any(err).(interface{ Unwrap() []error }); ok {
			for _, one := range several.Unwrap() {
				if code := codeOf(one); code != 0 {
					return code
				}
			}
		}
		code := reflect.ValueOf(err)
		if method := code.MethodByName("Code"); method.IsValid() && method.Type().NumIn() == 0 && method.Type().NumOut() == 1 {
			code = method.Call(nil)[0]
		} else if object := reflect.Indirect(code); object.Kind() == reflect.Struct {
			code = dialect.Field(object, "Code")
		}
		switch {
		case !code.IsValid():
		case code.CanInt():
			return int(code.Int() & 0xff)
		case code.CanUint():
			return int(code.Uint() & 0xff)
		}
	}
	return 0
}
