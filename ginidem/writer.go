package ginidem

import (
	"net/http"
	"reflect"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/core"
)

// writer makes a gin.ResponseWriter of the capture: WriteHeader only remembers the status. The first byte of the body, or
// WriteHeaderNow, writes it.
type writer struct {
	*core.Capture
	status int
}

var _ gin.ResponseWriter = (*writer)(nil)

// Status returns the status that is written, or will be.
func (w *writer) Status() int { return w.status }

// Size returns the number of body bytes written, -1 before the answer has begun.
func (w *writer) Size() int {
	if !w.Written() {
		return -1
	}
	return w.Capture.Size()
}

// WriteHeader sets the status, unless it is written already.
func (w *writer) WriteHeader(status int) {
	if status > 0 && !w.Written() {
		w.status = status
	}
}

// WriteHeaderNow begins the answer.
func (w *writer) WriteHeaderNow() { w.Capture.WriteHeader(w.status) }

// Write begins the answer and adds to the body.
func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeaderNow()
	return w.Capture.Write(p)
}

// WriteString begins the answer and adds to the body.
func (w *writer) WriteString(s string) (int, error) {
	w.WriteHeaderNow()
	return w.Capture.WriteString(s)
}

// Flush begins the answer. It sends nothing, unless the route allows streaming.
func (w *writer) Flush() {
	w.WriteHeaderNow()
	w.Capture.Flush()
}

// CloseNotify returns a channel that never fires: an attempt does not end when its client goes away.
func (w *writer) CloseNotify() <-chan bool { return nil }

// Pusher returns nil: nothing is sent before the answer is recorded.
func (w *writer) Pusher() http.Pusher { return nil }

// takesBody reports whether a body can still be given to the answer.
func (w *writer) takesBody() bool {
	return w.Size() <= 0 && w.status != http.StatusNoContent && w.status != http.StatusNotModified
}

// ownWriter returns the engine's own writer, whatever middleware has put in front of it. The engine sends its status when
// all handlers have returned. It is nil for another layout of Gin's context, and for a context that no engine has made.
func ownWriter(c *gin.Context) gin.ResponseWriter {
	v := field(reflect.ValueOf(c), "writermem")
	if below := field(v, "ResponseWriter"); !below.IsValid() || below.Kind() != reflect.Interface || below.IsNil() {
		return nil
	}
	own, _ := reflect.TypeAssert[gin.ResponseWriter](reflect.NewAt(v.Type(), v.Addr().UnsafePointer()))
	return own
}

// sealed is a writer whose answer is sent and recorded. What error middleware writes after that is dropped, because the
// replay would not have it.
type sealed struct {
	gin.ResponseWriter
	core.Beside
	header http.Header
}

func seal(w gin.ResponseWriter) *sealed {
	return &sealed{ResponseWriter: w, Beside: core.Beside{Writer: w}, header: w.Header().Clone()}
}

func (s *sealed) Header() http.Header                 { return s.header }
func (s *sealed) WriteHeader(int)                     {}
func (s *sealed) WriteHeaderNow()                     {}
func (s *sealed) Write(p []byte) (int, error)         { return len(p), nil }
func (s *sealed) WriteString(str string) (int, error) { return len(str), nil }
