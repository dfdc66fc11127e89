package echoidem_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/adaptertest/echotest"
)

// mistaken is an error that renders itself.
type mistaken struct{}

func (mistaken) Error() string                { return "mistaken" }
func (mistaken) MarshalJSON() ([]byte, error) { return []byte(`{"field":"amount"}`), nil }

// answers are the ways in which a handler can answer or fail that Echo v5 does not have, or has in another form.
func answers(t testing.TB) map[string]func(c echotest.Context) error {
	type context = echotest.Context
	file := filepath.Join(t.TempDir(), "receipt.txt")
	require.NoError(t, os.WriteFile(file, []byte("receipt no. 1"), 0o600))
	return map[string]func(c context) error{
		"file":                func(c context) error { return c.(echoContext).File(file) },
		"missing file":        func(c context) error { return c.(echoContext).File(file + ".not") },
		"attachment":          func(c context) error { return c.Attachment(file, "receipt.txt") },
		"HTTP error, no text": func(context) error { return echo.NewHTTPError(http.StatusConflict) },
		"HTTP error, map":     func(context) error { return echo.NewHTTPError(http.StatusConflict, echo.Map{"code": 7}) },
		"HTTP error, JSON":    func(context) error { return echo.NewHTTPError(http.StatusUnprocessableEntity, mistaken{}) },
		"HTTP error, inner": func(context) error {
			return echo.NewHTTPError(http.StatusPaymentRequired, "declined").SetInternal(errors.New("insufficient funds"))
		},
		"HTTP error in an HTTP error": func(context) error {
			return echo.NewHTTPError(http.StatusConflict).SetInternal(echo.NewHTTPError(http.StatusGone, "inner"))
		},
		"Echo's own error": func(context) error { return echo.ErrNotFound },
	}
}
