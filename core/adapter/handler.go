package adapter

import (
	"reflect"
	"runtime"
	"strings"
	"unsafe"
)

// HandlerOf returns what tells a handler from others; two results may be compared. A function is told by its closure: all
// closures of one constructor have one code. A method value (h.pay) is a new closure each time, and is told by its code and
// its receiver.
func HandlerOf(handler any) any {
	v := reflect.ValueOf(handler)
	switch {
	case v.Kind() == reflect.Func:
		closure, name := closureOf(v), nameOf(v.Pointer())
		switch { // behind the code of a method value is its receiver, which has one word at least
		case strings.HasSuffix(name, "net/http.Handler.ServeHTTP-fm"): // an interface: two words
			return *(*[3]uintptr)(closure)
		case strings.HasSuffix(name, "-fm"):
			return *(*[2]uintptr)(closure)
		}
		return closure
	case v.Comparable():
		return handler
	}
	return v.Type()
}

// closureOf returns the address of a function's closure. Package reflect gives only that of its code.
func closureOf(function reflect.Value) unsafe.Pointer {
	variable := reflect.New(function.Type())
	variable.Elem().Set(function)
	return *(*unsafe.Pointer)(variable.UnsafePointer()) // a function is a pointer to its closure
}

// nameOf returns the name of a function's code, with its package.
func nameOf(code uintptr) string {
	if f := runtime.FuncForPC(code); f != nil {
		return f.Name()
	}
	return "a function without a name"
}
