// Package openapi tries what the library says about itself in OpenAPI with a validator, and with the tools that Go apps make
// their documents with. Everything is in its tests.
package openapi
