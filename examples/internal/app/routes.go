package app

import (
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/examples/internal/shop"
)

// routes is the table of the app: what each unsafe route does when it does not end well, and who may call what. The
// routers spell their patterns alike.
func routes() core.Routes {
	customer, seller, operator := shop.RoleCustomer, shop.RoleSeller, shop.RoleOperator
	return core.Routes{
		// Rows of our own database and nothing else.
		"POST /v1/orders":                {Recovery: core.Rollback, Roles: []string{customer, seller}},
		"POST /v1/orders/:id/cancel":     {Recovery: core.Rollback, Roles: []string{customer}},
		"POST /v1/payments":              {Recovery: core.Rollback, Roles: []string{customer}},
		"POST /v1/balance/charge":        {Recovery: core.Rollback, Roles: []string{customer}},
		"POST /v1/balance/credit":        {Recovery: core.Rollback, Roles: []string{customer}},
		"POST /v1/operations/:id/settle": {Recovery: core.Rollback, Roles: []string{operator}},

		// Rows, a call to a provider that knows a repeat by its key, and rows again: steps.
		"POST /v1/payments/:id/refunds": {Recovery: core.Resume, Roles: []string{customer, seller}},

		// A provider that cannot be asked twice.
		"POST /v1/payouts": {Recovery: core.Park, Roles: []string{seller}},

		"PATCH /v1/profile": {
			Roles:  []string{customer},
			Exempt: "moves no money, and setting a name twice is setting it once",
		},

		// Safe routes need no key; those that are here ask for a role.
		"GET /v1/orders/:id":   {Roles: []string{customer}},
		"GET /v1/payments":     {Roles: []string{customer}},
		"GET /v1/payments/:id": {Roles: []string{customer}},
		"GET /v1/balance":      {Roles: []string{customer}},
		"GET /v1/operations":   {Roles: []string{operator}},
		"GET /v1/ledger":       {Roles: []string{operator}},
	}
}
