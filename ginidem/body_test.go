package ginidem_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gin-gonic/gin/binding"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/adaptertest"
)

// Middleware that reads the body before the guard: the hash would be that of another command than the handler sees.
//
// CONTRACT O-6
func TestBodyReadBeforeTheGuard(t *testing.T) {
	const form, multipart, json = adaptertest.FormType, adaptertest.MultipartType, "application/json"
	bindBody := func(c *gin.Context) { _ = c.ShouldBindBodyWith(&gin.H{}, binding.JSON) }
	decompress := func(c *gin.Context) { // as gin-contrib/gzip does it
		r, err := gzip.NewReader(c.Request.Body)
		require.NoError(t, err)
		c.Request.Header.Del("Content-Encoding")
		c.Request.Header.Del("Content-Length")
		c.Request.Body = r
	}
	before := func(f gin.HandlerFunc, contentType string, body func(string) string, refused bool) adaptertest.BodyReader {
		return adaptertest.BodyReader{Outer: f, ContentType: contentType, Body: body, Refused: refused}
	}
	postForm := func(c *gin.Context) { c.PostForm("amount") }
	adaptertest.BodyReadBeforeTheGuard(t, adapter{}, map[string]adaptertest.BodyReader{
		"ShouldBindBodyWith": before(bindBody, json, adaptertest.Object, true),
		"ShouldBindBodyWith, put back": before(func(c *gin.Context) {
			bindBody(c)
			c.Request.Body = bodyBytes(c)
		}, json, adaptertest.Object, false),
		"another body put there": before(func(c *gin.Context) {
			bindBody(c)
			c.Request.Body, c.Request.ContentLength = io.NopCloser(strings.NewReader(adaptertest.Object("1"))), -1
		}, json, adaptertest.Object, true),
		"PostForm":            before(postForm, form, adaptertest.Form, true),
		"PostForm, multipart": before(postForm, multipart, adaptertest.Multipart, true),
		"FormFile":            before(func(c *gin.Context) { _, _ = c.FormFile("amount") }, multipart, adaptertest.Multipart, true),
		"GetRawData":          before(func(c *gin.Context) { _, _ = c.GetRawData() }, "text/plain", adaptertest.Form, true),
		"a decoder":           before(decompress, form, adaptertest.Zipped, false),
	})
}

// bodyBytes is the body that ShouldBindBodyWith has kept.
func bodyBytes(c *gin.Context) io.ReadCloser {
	kept, _ := c.Get(gin.BodyBytesKey)
	return io.NopCloser(bytes.NewReader(kept.([]byte)))
}
