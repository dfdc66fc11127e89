package ginidem_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/adaptertest"
)

var errDeclined = errors.New("declined")

// answers are the ways in which a handler of Gin can answer.
func answers(t testing.TB) map[string]gin.HandlerFunc {
	file := filepath.Join(t.TempDir(), "receipt.txt")
	require.NoError(t, os.WriteFile(file, []byte("receipt no. 1"), 0o600))
	return map[string]gin.HandlerFunc{
		"JSON":          func(c *gin.Context) { c.JSON(http.StatusCreated, gin.H{"id": 1, "html": "<&>"}) },
		"pure JSON":     func(c *gin.Context) { c.PureJSON(http.StatusAccepted, gin.H{"html": "<&>"}) },
		"XML":           func(c *gin.Context) { c.XML(http.StatusCreated, gin.H{"id": 1}) },
		"string":        func(c *gin.Context) { c.String(http.StatusCreated, "paid %d", 7) },
		"blob":          func(c *gin.Context) { c.Data(http.StatusOK, "application/pdf", []byte{0, 1, 2, 0xff}) },
		"empty blob":    func(c *gin.Context) { c.Data(http.StatusCreated, "text/plain", nil) },
		"sniffed":       func(c *gin.Context) { _, _ = c.Writer.Write([]byte("<html>")) },
		"write string":  func(c *gin.Context) { c.Status(http.StatusCreated); _, _ = c.Writer.WriteString("plain") },
		"copied":        func(c *gin.Context) { _, _ = io.Copy(c.Writer, strings.NewReader(strings.Repeat("x", 100<<10))) },
		"file":          func(c *gin.Context) { c.File(file) },
		"missing file":  func(c *gin.Context) { c.File(file + ".not") },
		"attachment":    func(c *gin.Context) { c.FileAttachment(file, "receipt.txt") },
		"event":         func(c *gin.Context) { c.SSEvent("paid", gin.H{"id": 1}) },
		"redirect":      func(c *gin.Context) { c.Redirect(http.StatusSeeOther, "/v1/payments/1") },
		"status alone":  func(c *gin.Context) { c.Status(http.StatusNoContent) },
		"status now":    func(c *gin.Context) { c.Status(http.StatusAccepted); c.Writer.WriteHeaderNow() },
		"no write":      func(*gin.Context) {},
		"header alone":  func(c *gin.Context) { c.Header("Location", "/v1/payments/1"); c.Status(http.StatusCreated) },
		"abort":         func(c *gin.Context) { c.AbortWithStatus(http.StatusConflict) },
		"abort JSON":    func(c *gin.Context) { c.AbortWithStatusJSON(http.StatusPaymentRequired, gin.H{"error": "declined"}) },
		"abort error":   func(c *gin.Context) { _ = c.AbortWithError(http.StatusPaymentRequired, errDeclined) },
		"bare abort":    func(c *gin.Context) { c.Abort() },
		"http.Error":    func(c *gin.Context) { http.Error(c.Writer, "gone", http.StatusGone) },
		"status twice":  func(c *gin.Context) { c.Status(http.StatusAccepted); c.JSON(http.StatusCreated, 1) },
		"written twice": func(c *gin.Context) { c.JSON(http.StatusCreated, 1); c.JSON(http.StatusAccepted, 2) },
		"status kept":   func(c *gin.Context) { c.Status(http.StatusTeapot); c.JSON(-1, gin.H{"kept": true}) },
		"too late":      func(c *gin.Context) { c.JSON(http.StatusCreated, 1); c.Status(http.StatusTeapot) },
		"logged error":  func(c *gin.Context) { c.JSON(http.StatusCreated, 1); _ = c.Error(errDeclined) },
		"no body":       func(c *gin.Context) { c.JSON(http.StatusNoContent, gin.H{"never": "sent"}) },
		"bound badly": func(c *gin.Context) {
			var in struct{ Amount int }
			if c.BindJSON(&in) == nil {
				t.Error("bound")
			}
		},
		"bound badly, told": func(c *gin.Context) {
			var in struct{ Amount int }
			if err := c.ShouldBindJSON(&in); err != nil {
				c.JSON(http.StatusBadRequest, gin.H{"error": "amount"})
			}
		},
		"reader": func(c *gin.Context) {
			c.DataFromReader(http.StatusOK, 6, "text/csv", strings.NewReader("a,b,c\n"),
				map[string]string{"Content-Disposition": "attachment"})
		},
		"stream": func(c *gin.Context) {
			step := 0
			c.Stream(func(w io.Writer) bool {
				step++
				_, _ = fmt.Fprintf(w, "step %d\n", step)
				return step < 3
			})
		},
		"headers": func(c *gin.Context) {
			h := c.Writer.Header()
			h["Link"] = []string{"</a>; rel=next", "</b>; rel=prev"}
			h.Set("ETag", `"1"`)
			h.Set("Content-Language", "de")
			c.JSON(http.StatusCreated, 1)
		},
		"controller": func(c *gin.Context) {
			controller := http.NewResponseController(c.Writer)
			_, _ = c.Writer.WriteString("before ")
			if err := controller.Flush(); err != nil {
				t.Error(err)
			}
			_, _ = c.Writer.WriteString("after")
		},
	}
}

// CONTRACT R-1, M-3
func TestAnswers(t *testing.T) {
	handlers := map[string]adaptertest.Handler{}
	for name, handler := range answers(t) {
		handlers[name] = handler
	}
	adaptertest.Answers(t, adapter{}, adapter{}.New, "", handlers)
}
