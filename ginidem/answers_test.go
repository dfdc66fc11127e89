package ginidem_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gin-gonic/gin/binding"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/adaptertest"
)

var errDeclined = errors.New("declined")

// answers are the ways in which a handler of Gin can answer.
func answers(t testing.TB) map[string]adaptertest.Handler {
	file := filepath.Join(t.TempDir(), "receipt.txt")
	require.NoError(t, os.WriteFile(file, []byte("receipt no. 1"), 0o600))
	handlers := map[string]gin.HandlerFunc{
		"pure JSON":    func(c *gin.Context) { c.PureJSON(http.StatusAccepted, gin.H{"html": "<&>"}) },
		"XML":          func(c *gin.Context) { c.XML(http.StatusCreated, gin.H{"id": 1}) },
		"blob":         func(c *gin.Context) { c.Data(http.StatusOK, "application/pdf", []byte{0, 1, 2, 0xff}) },
		"empty blob":   func(c *gin.Context) { c.Data(http.StatusCreated, "text/plain", nil) },
		"write string": func(c *gin.Context) { c.Status(http.StatusCreated); _, _ = c.Writer.WriteString("plain") },
		"attachment":   func(c *gin.Context) { c.FileAttachment(file, "receipt.txt") },
		"event":        func(c *gin.Context) { c.SSEvent("paid", gin.H{"id": 1}) },
		"redirect":     func(c *gin.Context) { c.Redirect(http.StatusSeeOther, "/v1/payments/1") },
		"status alone": func(c *gin.Context) { c.Status(http.StatusNoContent) },
		"status now":   func(c *gin.Context) { c.Status(http.StatusAccepted); c.Writer.WriteHeaderNow() },
		"abort":        func(c *gin.Context) { c.AbortWithStatus(http.StatusConflict) },
		"abort JSON":   func(c *gin.Context) { c.AbortWithStatusJSON(http.StatusPaymentRequired, gin.H{"error": "declined"}) },
		"abort error":  func(c *gin.Context) { _ = c.AbortWithError(http.StatusPaymentRequired, errDeclined) },
		"bare abort":   func(c *gin.Context) { c.Abort() },
		"status twice": func(c *gin.Context) { c.Status(http.StatusAccepted); c.JSON(http.StatusCreated, 1) },
		"status kept":  func(c *gin.Context) { c.Status(http.StatusTeapot); c.JSON(-1, gin.H{"kept": true}) },
		"too late":     func(c *gin.Context) { c.JSON(http.StatusCreated, 1); c.Status(http.StatusTeapot) },
		"logged error": func(c *gin.Context) { c.JSON(http.StatusCreated, 1); _ = c.Error(errDeclined) },
		"no body":      func(c *gin.Context) { c.JSON(http.StatusNoContent, gin.H{"never": "sent"}) },
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
		"flushed first": func(c *gin.Context) {
			c.Header("Content-Type", "text/plain")
			c.Status(http.StatusCreated)
			c.Writer.Flush()
			assert.True(t, c.Writer.Written())
			c.String(http.StatusTeapot, "too late for this status")
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
	}
	ways := map[string]adaptertest.Handler{}
	for name, handler := range handlers {
		ways[name] = handler
	}
	return ways
}

// readers are the ways of Gin, and of its middleware, to read the body in front of the guards. The hash would be that of
// another command than the handler sees.
func readers() map[string]adaptertest.BodyReader {
	const form, multipart, json = adaptertest.FormType, adaptertest.MultipartType, "application/json"
	bindBody := func(c *gin.Context) { _ = c.ShouldBindBodyWith(&gin.H{}, binding.JSON) }
	before := func(f gin.HandlerFunc, contentType string, body func(string) string, refused bool) adaptertest.BodyReader {
		return adaptertest.BodyReader{Outer: f, ContentType: contentType, Body: body, Refused: refused}
	}
	postForm := func(c *gin.Context) { c.PostForm("amount") }
	return map[string]adaptertest.BodyReader{
		"ShouldBindBodyWith": before(bindBody, json, adaptertest.Object, true),
		"ShouldBindBodyWith, put back": before(func(c *gin.Context) {
			bindBody(c)
			kept, _ := c.Get(gin.BodyBytesKey)
			c.Request.Body = io.NopCloser(bytes.NewReader(kept.([]byte)))
		}, json, adaptertest.Object, false),
		"another body put there": before(func(c *gin.Context) {
			bindBody(c)
			c.Request.Body, c.Request.ContentLength = io.NopCloser(strings.NewReader(adaptertest.Object("1"))), -1
		}, json, adaptertest.Object, true),
		"PostForm":            before(postForm, form, adaptertest.Form, true),
		"PostForm, multipart": before(postForm, multipart, adaptertest.Multipart, true),
		"FormFile":            before(func(c *gin.Context) { _, _ = c.FormFile("amount") }, multipart, adaptertest.Multipart, true),
		"GetRawData":          before(func(c *gin.Context) { _, _ = c.GetRawData() }, "text/plain", adaptertest.Form, true),
	}
}

// limit is a limit that answers as soon as the body is above it, as gin-contrib/size does.
func limit(c *gin.Context) {
	c.Request.Body = &limitedBody{c.Request.Body, c, 1 << 10}
	c.Next()
}

type limitedBody struct {
	io.ReadCloser
	c    *gin.Context
	left int
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left >= 0 {
		return n, err
	}
	err = errors.New("HTTP request too large")
	_ = b.c.Error(err)
	b.c.Header("Connection", "close")
	b.c.String(http.StatusRequestEntityTooLarge, "request too large")
	b.c.Abort()
	return 0, err
}
