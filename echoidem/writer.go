package echoidem

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/core"
)

// newResponse is the response that the handler writes to. The hooks of outer middleware stay on its own response, and
// run when the answer leaves.
func newResponse(capture *core.Capture, e *echo.Echo) *echo.Response {
	r := echo.NewResponse(capture, e)
	r.Status = http.StatusOK // as Echo's own begins
	return r
}

// sealed is where writes go after an answer has left and is recorded: they are dropped, as they would be missing from
// the replay.
type sealed struct{ header http.Header }

// seal returns a committed response that reads as sent does, and that drops what an error handler writes to it although
// it is committed.
func seal(sent *echo.Response, e *echo.Echo) *echo.Response {
	r := echo.NewResponse(&sealed{header: sent.Header().Clone()}, e)
	r.Status, r.Size, r.Committed = sent.Status, sent.Size, sent.Committed
	return r
}

func (s *sealed) Header() http.Header         { return s.header }
func (s *sealed) WriteHeader(int)             {}
func (s *sealed) Write(p []byte) (int, error) { return len(p), nil }

// Flush implements [http.Flusher]: Echo panics where a writer does not.
func (s *sealed) Flush() {}
