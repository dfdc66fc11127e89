package echoidem_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

var errDeclined = errors.New("declined")

// mistaken is an error that renders itself.
type mistaken struct{}

func (mistaken) Error() string                { return "mistaken" }
func (mistaken) MarshalJSON() ([]byte, error) { return []byte(`{"field":"amount"}`), nil }

// answers are the ways in which a handler of Echo can answer or fail.
func answers(t testing.TB) map[string]echo.HandlerFunc {
	file := filepath.Join(t.TempDir(), "receipt.txt")
	require.NoError(t, os.WriteFile(file, []byte("receipt no. 1"), 0o600))
	declined := echo.NewHTTPError(http.StatusPaymentRequired, "declined")
	return map[string]echo.HandlerFunc{
		"JSON":        func(c echo.Context) error { return c.JSON(http.StatusCreated, echo.Map{"id": 1, "html": "<&>"}) },
		"pretty JSON": func(c echo.Context) error { return c.JSONPretty(http.StatusCreated, echo.Map{"id": 1}, " ") },
		"JSON blob":   func(c echo.Context) error { return c.JSONBlob(http.StatusCreated, []byte(`{"id":1.10}`)) },
		"JSONP":       func(c echo.Context) error { return c.JSONP(http.StatusCreated, "paid", 1) },
		"XML":         func(c echo.Context) error { return c.XML(http.StatusCreated, struct{ ID int }{1}) },
		"string":      func(c echo.Context) error { return c.String(http.StatusCreated, "paid") },
		"HTML":        func(c echo.Context) error { return c.HTML(http.StatusCreated, "<p>paid") },
		"blob":        func(c echo.Context) error { return c.Blob(http.StatusOK, "application/pdf", []byte{0, 1, 2, 0xff}) },
		"empty blob":  func(c echo.Context) error { return c.Blob(http.StatusCreated, "text/plain", nil) },
		"stream": func(c echo.Context) error {
			return c.Stream(http.StatusCreated, "text/csv", strings.NewReader(strings.Repeat("a,b\n", 20<<10)))
		},
		"file":         func(c echo.Context) error { return c.File(file) },
		"missing file": func(c echo.Context) error { return c.File(file + ".not") },
		"attachment":   func(c echo.Context) error { return c.Attachment(file, "receipt.txt") },
		"redirect":     func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, "/v1/payments/1") },
		"no content":   func(c echo.Context) error { return c.NoContent(http.StatusNoContent) },
		"status alone": func(c echo.Context) error { return c.NoContent(http.StatusAccepted) },
		"no write":     func(echo.Context) error { return nil },
		"sniffed":      func(c echo.Context) error { _, err := c.Response().Write([]byte("<html>")); return err },
		"copied": func(c echo.Context) error {
			_, err := io.Copy(c.Response(), strings.NewReader(strings.Repeat("x", 100<<10)))
			return err
		},
		"header alone": func(c echo.Context) error {
			c.Response().Header().Set("Location", "/v1/payments/1")
			return c.NoContent(http.StatusCreated)
		},
		"http handler": echo.WrapHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "gone", http.StatusGone)
		})),
		"written twice": func(c echo.Context) error {
			_ = c.JSON(http.StatusCreated, 1)
			return c.JSON(http.StatusAccepted, 2)
		},
		"status set": func(c echo.Context) error {
			c.Response().Status = http.StatusTeapot
			_, err := io.WriteString(c.Response(), "short and stout")
			return err
		},

		"HTTP error":          func(echo.Context) error { return declined },
		"HTTP error, no text": func(echo.Context) error { return echo.NewHTTPError(http.StatusConflict) },
		"HTTP error, map":     func(echo.Context) error { return echo.NewHTTPError(http.StatusConflict, echo.Map{"code": 7}) },
		"HTTP error, JSON":    func(echo.Context) error { return echo.NewHTTPError(http.StatusUnprocessableEntity, mistaken{}) },
		"HTTP error, inner": func(echo.Context) error {
			return echo.NewHTTPError(http.StatusPaymentRequired, "declined").SetInternal(errors.New("insufficient funds"))
		},
		"HTTP error in an HTTP error": func(echo.Context) error {
			return echo.NewHTTPError(http.StatusConflict).SetInternal(echo.NewHTTPError(http.StatusGone, "inner"))
		},
		"Echo's own error":  func(echo.Context) error { return echo.ErrNotFound },
		"rendered":          func(c echo.Context) error { c.Error(declined); return nil },
		"rendered and sent": func(c echo.Context) error { c.Error(declined); return declined },
		"answered, then error": func(c echo.Context) error {
			_ = c.JSON(http.StatusCreated, 1)
			return declined
		},
		"bound badly":  func(c echo.Context) error { return c.Bind(&struct{ Amount int }{}) },
		"bad redirect": func(c echo.Context) error { c.Error(c.Bind(&struct{ Amount int }{})); return nil },
		"flushed": func(c echo.Context) error {
			for step := range 3 {
				_, _ = fmt.Fprintf(c.Response(), "step %d\n", step)
				c.Response().Flush()
			}
			return nil
		},
		"controller": func(c echo.Context) error {
			_, _ = io.WriteString(c.Response(), "before ")
			if err := http.NewResponseController(c.Response()).Flush(); err != nil {
				t.Error(err)
			}
			_, err := io.WriteString(c.Response(), "after")
			return err
		},
		"headers": func(c echo.Context) error {
			h := c.Response().Header()
			h["Link"] = []string{"</a>; rel=next", "</b>; rel=prev"}
			h.Set("ETag", `"1"`)
			h.Set("Content-Language", "de")
			return c.JSON(http.StatusCreated, 1)
		},
	}
}

// careless renders every error as text and does not look at what is written already.
func careless(err error, c echo.Context) {
	status := http.StatusInternalServerError
	if he, ok := errors.AsType[*echo.HTTPError](err); ok {
		status = he.Code
	}
	_ = c.String(status, "careless: "+err.Error())
}

// What the client sees is what it would see without the guards, and what it sees again.
//
// CONTRACT R-1, M-3
func TestAnswers(t *testing.T) {
	for recovery, cfg := range map[string]core.Config{
		"Park":     {},
		"Rollback": newSQLite(t).config(),
	} {
		for handler, errorHandler := range map[string]echo.HTTPErrorHandler{"default": nil, "careless": careless} {
			t.Run(recovery+", "+handler+" error handler", func(t *testing.T) {
				e := echo.New()
				e.Logger.SetOutput(io.Discard)
				if errorHandler != nil {
					e.HTTPErrorHandler = errorHandler
				}
				bare := e.Group("/bare")
				v1 := guarded(t, e, cfg)
				all := answers(t)
				for name, handler := range all {
					bare.POST(pathOf(name), handler)
					v1.POST(pathOf(name), handler)
				}
				a := serve(t, e)
				for name := range all {
					t.Run(name, func(t *testing.T) {
						a := a.with(t)
						body := map[string]string{"Content-Type": "application/json"}
						want := a.do(call{path: "/bare" + pathOf(name), body: "{", token: "-", headers: body})
						got := a.requireReplay(call{path: "/v1" + pathOf(name), key: handler + pathOf(name), body: "{", headers: body})
						require.Equal(t, want.status, got.status)
						// Without guards, a careless handler writes behind what is there. Once is right.
						if double, ok := strings.CutPrefix(want.body, got.body); ok && got.body != "" && double != "" {
							require.True(t, strings.HasPrefix(double, "careless: "), double)
							return
						}
						require.Equal(t, want.body, got.body)
						require.Equal(t, unframed(want.header), unframed(got.header))
					})
				}
			})
		}
	}
}

func pathOf(name string) string {
	return "/" + strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(name)
}

// unframed takes out of a first answer what the library adds, and how it is framed.
func unframed(h http.Header) http.Header {
	h = maps.Clone(h)
	for _, name := range []string{"Date", "Content-Length", "Idempotency-Key", "Idempotency-Result"} {
		h.Del(name)
	}
	return h
}
