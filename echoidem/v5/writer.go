package echoidem

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/auth19/idem/core"
)

// newResponse returns the response that the handler writes to. The hooks of outer middleware stay on the outer response,
// and run when the answer is sent.
func newResponse(capture *core.Capture, e *echo.Echo) *echo.Response {
	r := echo.NewResponse(capture, e.Logger)
	r.Status = http.StatusOK // as Echo's own response begins
	return r
}

// sealed is the writer after the answer is sent and recorded. What is written to it is dropped, because the replay would
// not have it.
type sealed struct{ header http.Header }

// seal returns a committed response with the status, size and headers of sent. It drops what an error handler writes to
// it although it is committed.
func seal(sent http.ResponseWriter, e *echo.Echo) *echo.Response {
	r := echo.NewResponse(&sealed{header: sent.Header().Clone()}, e.Logger)
	r.Committed = true
	if own, err := echo.UnwrapResponse(sent); err == nil {
		r.Status, r.Size, r.Committed = own.Status, own.Size, own.Committed
	}
	return r
}

func (s *sealed) Header() http.Header         { return s.header }
func (s *sealed) WriteHeader(int)             {}
func (s *sealed) Write(p []byte) (int, error) { return len(p), nil }

// Flush implements [http.Flusher]: Echo panics if a writer does not.
func (s *sealed) Flush() {}
