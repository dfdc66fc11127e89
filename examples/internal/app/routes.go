package app

import (
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/examples/internal/shop"
)

// refunds is the route of the refunds, which the service goes on with by itself (Config.Resume).
const refunds = "POST /v1/payments/:id/refunds"

// routes returns the table of the app: the recovery of each unsafe route, and the roles that may call it. Both routers
// spell the patterns in the same way. keys is the format of operators' keys: they have no age.
func routes(keys core.KeyFormat) core.Routes {
	customer, seller, operator := shop.RoleCustomer, shop.RoleSeller, shop.RoleOperator
	return core.Routes{
		// Rows of our own database and nothing else.
		"POST /v1/orders":                 {Recovery: core.Rollback, Roles: []string{customer, seller}},
		"POST /v1/orders/:id/cancel":      {Recovery: core.Rollback, Roles: []string{customer}},
		"POST /v1/payments":               {Recovery: core.Rollback, Roles: []string{customer}},
		"POST /v1/balance/charge":         {Recovery: core.Rollback, Roles: []string{customer}},
		"POST /v1/balance/credit":         {Recovery: core.Rollback, Roles: []string{customer}},
		"POST /v1/operations/:id/settle":  {Recovery: core.Rollback, Roles: []string{operator}, KeyFormat: keys},
		"POST /v1/operations/:id/retry":   {Recovery: core.Rollback, Roles: []string{operator}, KeyFormat: keys},
		"POST /v1/operations/:id/give-up": {Recovery: core.Rollback, Roles: []string{operator}, KeyFormat: keys},
		"POST /v1/keys/refusals":          {Recovery: core.Rollback, Roles: []string{operator}, KeyFormat: keys},
		"POST /v1/operations/marks":       {Recovery: core.Rollback, Roles: []string{operator}, KeyFormat: keys},

		// Steps: rows, a call to a provider that deduplicates by key, and rows again.
		refunds: {Recovery: core.Resume, Roles: []string{customer, seller}},

		// A walk through all records, in batches (docs/operations.md). The repeat of one that broke off continues it.
		"POST /v1/erasures": {Recovery: core.Resume, Roles: []string{operator}, Deadline: time.Hour, KeyFormat: keys},

		// A provider that does not deduplicate.
		"POST /v1/payouts": {Recovery: core.Park, Roles: []string{seller}},

		"PATCH /v1/profile": {
			Roles:  []string{customer},
			Exempt: "moves no money, and setting a name twice is setting it once",
		},

		"POST /v1/operations/find": {
			Roles:  []string{operator},
			Exempt: "finds operations and changes nothing; what is looked for is in the body, and in no log",
		},

		// Safe routes need no key. These are here because they need a role.
		"GET /v1/orders/:id":   {Roles: []string{customer}},
		"GET /v1/payments":     {Roles: []string{customer}},
		"GET /v1/payments/:id": {Roles: []string{customer}},
		"GET /v1/balance":      {Roles: []string{customer}},
		"GET /v1/operations":   {Roles: []string{operator}},
		"GET /v1/ledger":       {Roles: []string{operator}},
	}
}
