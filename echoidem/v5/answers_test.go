package echoidem_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/adaptertest/echotest"
)

// mistaken is an error that renders itself.
type mistaken struct{}

func (mistaken) Error() string                { return "mistaken" }
func (mistaken) StatusCode() int              { return http.StatusUnprocessableEntity }
func (mistaken) MarshalJSON() ([]byte, error) { return []byte(`{"field":"amount"}`), nil }

// answers are the ways in which a handler can answer or fail that Echo v4 does not have, or has in another form.
func answers(t testing.TB) map[string]func(c echotest.Context) error {
	type context = echotest.Context
	folder, file := t.TempDir(), "receipt.txt"
	require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte("receipt no. 1"), 0o600))
	files, declined := os.DirFS(folder), echo.NewHTTPError(http.StatusPaymentRequired, "declined")
	return map[string]func(c context) error{
		"file":                func(c context) error { return c.(echoContext).FileFS(file, files) },
		"missing file":        func(c context) error { return c.(echoContext).FileFS(file+".not", files) },
		"missing attachment":  func(c context) error { return c.Attachment(file, "receipt.txt") },
		"HTTP error, no text": func(context) error { return echo.NewHTTPError(http.StatusConflict, "") },
		"HTTP error, wrapped": func(context) error { return declined.Wrap(errors.New("insufficient funds")) },
		"error with a status": func(context) error { return mistaken{} },
		"Echo's own error":    func(context) error { return echo.ErrNotFound },
	}
}
