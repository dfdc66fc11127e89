package openapi_test

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/openapi"
)

// With "openapi" and "info" the module's part is a document, of 3.0 and of 3.1.
func TestPartIsADocument(t *testing.T) {
	for _, version := range []string{"3.0.3", "3.1.0"} {
		t.Run(version, func(t *testing.T) {
			part := openapi.Document(newModule(t))
			part["openapi"], part["info"] = version, map[string]any{"title": "payments", "version": "1"}
			doc := valid(t, part)
			require.Equal(t, 4, doc.Paths.Len())
		})
	}
}

// The validator finds what is wrong: else the tests here prove nothing.
func TestValidatorFindsMistakes(t *testing.T) {
	part := openapi.Document(newModule(t))
	part["openapi"], part["info"] = "3.0.3", map[string]any{"title": "payments", "version": "1"}
	delete(part["components"].(map[string]any), "schemas")
	_, err := openapi3.NewLoader().LoadFromData(toJSON(t, part))
	require.ErrorContains(t, err, "IdempotencyProblem")
}
