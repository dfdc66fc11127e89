package openapi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Patterns of every router, as OpenAPI writes them.
func TestPath(t *testing.T) {
	for pattern, want := range map[string]struct {
		path       string
		parameters []string
	}{
		"/":                           {"/", nil},
		"/v1/payments":                {"/v1/payments", nil},
		"/v1/payments/":               {"/v1/payments/", nil},
		"/v1/payments/:id/refunds":    {"/v1/payments/{id}/refunds", []string{"id"}},
		"/v1/:a/:b":                   {"/v1/{a}/{b}", []string{"a", "b"}},
		"/v:version/pay":              {"/v{version}/pay", []string{"version"}},
		"/files/*path":                {"/files/{path}", []string{"path"}},
		"/files/*":                    {"/files/{path}", []string{"path"}},
		`/v1/payments\:batch`:         {"/v1/payments:batch", nil},
		"/v1/payments/{id}/refunds":   {"/v1/payments/{id}/refunds", []string{"id"}},
		"/v1/payments/{id}/x:cancel":  {"/v1/payments/{id}/x:cancel", []string{"id"}},
		"/files/{path...}":            {"/files/{path}", []string{"path"}},
		"/v1/payments/{$}":            {"/v1/payments/", nil},
		"/v1/{id:[0-9]{3}/?}/x":       {"/v1/{id}/x", []string{"id"}},
		"/v1/{year}-{month:[0-9]+}/*": {"/v1/{year}-{month}/{path}", []string{"year", "month", "path"}},
		"/v1/:id/x/:id":               {"/v1/{id}/x/{id_}", []string{"id", "id_"}},
		"/v1/{open":                   {"/v1/{open}", []string{"open"}},
	} {
		path, parameters := pathOf(pattern)
		require.Equal(t, want.path, path, pattern)
		require.Equal(t, want.parameters, parameters, pattern)
	}
}

func TestInWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		72 * time.Hour: "72 hours", time.Hour: "1 hour", 90 * time.Minute: "90 minutes", time.Second: "1 second",
		1500 * time.Millisecond: "1.5s",
	} {
		require.Equal(t, want, inWords(d))
	}
}
