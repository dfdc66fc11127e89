package core

import "reflect"

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

// CodeOf returns the address of a function's code.
func CodeOf(function any) uintptr { return reflect.ValueOf(function).Pointer() }
