// Package openapi tells the users of an API what the guards of a [core.Module] do: [Document] for programs, in OpenAPI, and
// [PolicyHandler] for people and programs, as the IETF's draft of the Idempotency-Key header asks (section 2.6).
package openapi
