package echoidem_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/adaptertest"
)

var errDeclined = errors.New("declined")

// mistaken is an error that renders itself.
type mistaken struct{}

func (mistaken) Error() string                { return "mistaken" }
func (mistaken) StatusCode() int              { return http.StatusUnprocessableEntity }
func (mistaken) MarshalJSON() ([]byte, error) { return []byte(`{"field":"amount"}`), nil }

// answers are the ways in which a handler of Echo can answer or fail.
func answers(t testing.TB) map[string]echo.HandlerFunc {
	folder, file := t.TempDir(), "receipt.txt"
	require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte("receipt no. 1"), 0o600))
	files := os.DirFS(folder)
	declined := echo.NewHTTPError(http.StatusPaymentRequired, "declined")
	return map[string]echo.HandlerFunc{
		"JSON":        func(c *echo.Context) error { return c.JSON(http.StatusCreated, map[string]any{"id": 1, "html": "<&>"}) },
		"pretty JSON": func(c *echo.Context) error { return c.JSONPretty(http.StatusCreated, map[string]any{"id": 1}, " ") },
		"JSON blob":   func(c *echo.Context) error { return c.JSONBlob(http.StatusCreated, []byte(`{"id":1.10}`)) },
		"JSONP":       func(c *echo.Context) error { return c.JSONP(http.StatusCreated, "paid", 1) },
		"XML":         func(c *echo.Context) error { return c.XML(http.StatusCreated, struct{ ID int }{1}) },
		"string":      func(c *echo.Context) error { return c.String(http.StatusCreated, "paid") },
		"HTML":        func(c *echo.Context) error { return c.HTML(http.StatusCreated, "<p>paid") },
		"blob":        func(c *echo.Context) error { return c.Blob(http.StatusOK, "application/pdf", []byte{0, 1, 2, 0xff}) },
		"empty blob":  func(c *echo.Context) error { return c.Blob(http.StatusCreated, "text/plain", nil) },
		"stream": func(c *echo.Context) error {
			return c.Stream(http.StatusCreated, "text/csv", strings.NewReader(strings.Repeat("a,b\n", 20<<10)))
		},
		"file":               func(c *echo.Context) error { return c.FileFS(file, files) },
		"missing file":       func(c *echo.Context) error { return c.FileFS(file+".not", files) },
		"missing attachment": func(c *echo.Context) error { return c.Attachment(file, "receipt.txt") },
		"redirect":           func(c *echo.Context) error { return c.Redirect(http.StatusSeeOther, "/v1/payments/1") },
		"no content":         func(c *echo.Context) error { return c.NoContent(http.StatusNoContent) },
		"status alone":       func(c *echo.Context) error { return c.NoContent(http.StatusAccepted) },
		"no write":           func(*echo.Context) error { return nil },
		"sniffed":            func(c *echo.Context) error { _, err := c.Response().Write([]byte("<html>")); return err },
		"copied": func(c *echo.Context) error {
			_, err := io.Copy(c.Response(), strings.NewReader(strings.Repeat("x", 100<<10)))
			return err
		},
		"header alone": func(c *echo.Context) error {
			c.Response().Header().Set("Location", "/v1/payments/1")
			return c.NoContent(http.StatusCreated)
		},
		"http handler": echo.WrapHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "gone", http.StatusGone)
		})),
		"written twice": func(c *echo.Context) error {
			_ = c.JSON(http.StatusCreated, 1)
			return c.JSON(http.StatusAccepted, 2)
		},
		"status set": func(c *echo.Context) error {
			responseOf(c).Status = http.StatusTeapot
			_, err := io.WriteString(c.Response(), "short and stout")
			return err
		},

		"HTTP error":          func(*echo.Context) error { return declined },
		"HTTP error, no text": func(*echo.Context) error { return echo.NewHTTPError(http.StatusConflict, "") },
		"HTTP error, wrapped": func(*echo.Context) error { return declined.Wrap(errors.New("insufficient funds")) },
		"error with a status": func(*echo.Context) error { return mistaken{} },
		"Echo's own error":    func(*echo.Context) error { return echo.ErrNotFound },
		"rendered":            func(c *echo.Context) error { c.Echo().HTTPErrorHandler(c, declined); return nil },
		"rendered and sent":   func(c *echo.Context) error { c.Echo().HTTPErrorHandler(c, declined); return declined },
		"answered, then error": func(c *echo.Context) error {
			_ = c.JSON(http.StatusCreated, 1)
			return declined
		},
		"bound badly":  func(c *echo.Context) error { return c.Bind(&struct{ Amount int }{}) },
		"bad redirect": func(c *echo.Context) error { c.Echo().HTTPErrorHandler(c, c.Bind(&struct{ Amount int }{})); return nil },
		"flushed": func(c *echo.Context) error {
			for step := range 3 {
				_, _ = fmt.Fprintf(c.Response(), "step %d\n", step)
				responseOf(c).Flush()
			}
			return nil
		},
		"controller": func(c *echo.Context) error {
			_, _ = io.WriteString(c.Response(), "before ")
			if err := http.NewResponseController(c.Response()).Flush(); err != nil {
				t.Error(err)
			}
			_, err := io.WriteString(c.Response(), "after")
			return err
		},
		"headers": func(c *echo.Context) error {
			h := c.Response().Header()
			h["Link"] = []string{"</a>; rel=next", "</b>; rel=prev"}
			h.Set("ETag", `"1"`)
			h.Set("Content-Language", "de")
			return c.JSON(http.StatusCreated, 1)
		},
	}
}

// CONTRACT R-1, M-3
func TestAnswers(t *testing.T) {
	handlers := map[string]adaptertest.Handler{}
	for name, handler := range answers(t) {
		handlers[name] = handler
	}
	t.Run("default error handler", func(t *testing.T) { adaptertest.Answers(t, adapter{}, adapter{}.New, "", handlers) })
	t.Run("careless error handler", func(t *testing.T) {
		adaptertest.Answers(t, adapter{}, adapter{}.Careless, "careless: ", handlers)
	})
}
