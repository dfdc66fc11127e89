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

// wrongLength is a length that an answer without a body does not have: clients and proxies take it for one that broke off.
var wrongLength = []string{"1"}

// spoilLength makes an answer with these headers break off, until restoreLength. If middleware abandons the handler and
// writes only to the capture, the server sends an answer by itself, which would be an empty 200.
func spoilLength(h http.Header) {
	if h["Content-Length"] == nil {
		h["Content-Length"] = wrongLength
	}
}

func restoreLength(h http.Header) {
	if values := h["Content-Length"]; len(values) == 1 && &values[0] == &wrongLength[0] {
		delete(h, "Content-Length")
	}
}

// sealed is the writer after the answer is sent and recorded. What is written to it is dropped, because the replay would
// not have it.
type sealed struct {
	core.Beside
	header http.Header
}

// seal returns a committed response with the status, size and headers of sent. It drops what an error handler writes to
// it although it is committed.
func seal(sent http.ResponseWriter, e *echo.Echo) *echo.Response {
	r := echo.NewResponse(&sealed{Beside: core.Beside{Writer: sent}, header: sent.Header().Clone()}, e.Logger)
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
