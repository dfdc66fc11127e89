package adapter

import (
	"reflect"
	"runtime"
)

// Guard is one of the guards that a request has to pass, in the order of the constants (D-2).
type Guard uint8

// The guards, in the order in which a money route needs them.
const (
	GuardJWT         Guard = iota + 1 // who calls: JWTGuard, or Bridge behind a JWT middleware of the app's own
	GuardRoles                        // may the caller do this: RolesGuard
	GuardKey                          // is there one key: KeyGuard
	GuardInterceptor                  // claim and record: Interceptor
)

// String returns the guard's name in findings.
func (g Guard) String() string {
	switch g {
	case GuardJWT:
		return "JWT guard"
	case GuardRoles:
		return "roles guard"
	case GuardKey:
		return "key guard"
	case GuardInterceptor:
		return "interceptor"
	}
	return "unknown guard"
}

// GuardCodes tells the guards of an adapter from other middleware, by the address of their code. All closures of one
// constructor have the same address, unless the compiler inlines the constructor: then each caller has a copy of the code.
// So the constructors are marked go:noinline.
type GuardCodes map[uintptr][]Guard

// NewGuardCodes takes one middleware of each constructor of an adapter. It does not call them.
func NewGuardCodes(jwt, bridge, roles, key, interceptor, idempotent any) GuardCodes {
	return GuardCodes{
		CodeOf(jwt):         {GuardJWT},
		CodeOf(bridge):      {GuardJWT},
		CodeOf(roles):       {GuardRoles},
		CodeOf(key):         {GuardKey},
		CodeOf(interceptor): {GuardInterceptor},
		CodeOf(idempotent):  {GuardRoles, GuardKey, GuardInterceptor},
	}
}

// Link returns the function that has this code as a link of a chain.
func (g GuardCodes) Link(code uintptr) Link {
	l := Link{Name: nameOf(code), Guards: g[code]}
	if f := runtime.FuncForPC(code); f != nil {
		l.File, _ = f.FileLine(code)
	}
	return l
}

// CodeOf returns the address of a function's code.
func CodeOf(function any) uintptr { return reflect.ValueOf(function).Pointer() }
