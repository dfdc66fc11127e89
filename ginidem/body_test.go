package ginidem_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gin-gonic/gin/binding"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
)

const (
	formType  = "application/x-www-form-urlencoded"
	multipart = "multipart/form-data; boundary=b"
)

// part is a multipart body with one field.
func part(amount string) string {
	return "--b\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n" + amount + "\r\n--b--\r\n"
}

// Middleware that reads the body before the guard: the hash would be that of another command than the handler sees.
//
// CONTRACT O-6
func TestBodyReadBeforeTheGuard(t *testing.T) {
	bindBody := func(c *gin.Context) { _ = c.ShouldBindBodyWith(&gin.H{}, binding.JSON) }
	putBack := func(c *gin.Context) {
		body, _ := io.ReadAll(c.Request.Body)
		c.Request.Body = io.NopCloser(bytes.NewReader(body))
	}
	decompress := func(c *gin.Context) { // as gin-contrib/gzip does it
		r, err := gzip.NewReader(c.Request.Body)
		require.NoError(t, err)
		c.Request.Header.Del("Content-Encoding")
		c.Request.Header.Del("Content-Length")
		c.Request.Body = r
	}
	for name, test := range map[string]struct {
		outer       gin.HandlerFunc
		contentType string
		body        func(amount string) string
		refused     bool
	}{
		"ShouldBindBodyWith":           {bindBody, "application/json", object, true},
		"ShouldBindBodyWith, put back": {func(c *gin.Context) { bindBody(c); c.Request.Body = bodyBytes(c) }, "application/json", object, false},
		"another body put there": {func(c *gin.Context) {
			bindBody(c)
			c.Request.Body, c.Request.ContentLength = io.NopCloser(strings.NewReader(object("1"))), -1
		}, "application/json", object, true},
		"PostForm":            {func(c *gin.Context) { c.PostForm("amount") }, formType, form, true},
		"PostForm, multipart": {func(c *gin.Context) { c.PostForm("amount") }, multipart, part, true},
		"FormFile":            {func(c *gin.Context) { _, _ = c.FormFile("amount") }, multipart, part, true},
		"GetRawData":          {func(c *gin.Context) { _, _ = c.GetRawData() }, "text/plain", form, true},
		"read and put back":   {putBack, formType, form, false},
		"a decoder":           {decompress, formType, func(amount string) string { return zip(t, form(amount)) }, false},
		"nothing":             {func(*gin.Context) {}, multipart, part, false},
	} {
		for _, chunks := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				r := gin.New()
				ran := 0
				v1 := r.Group("/v1", test.outer, ginidem.JWTGuard(newVerifier(t)), ginidem.Idempotent(newModule(t, core.Config{})))
				v1.POST("/pay", func(c *gin.Context) { ran++; c.String(http.StatusCreated, "%d", ran) })
				a := serve(t, r)
				pay := func(amount string) answer {
					return a.do(call{key: "key-1", body: test.body(amount), chunks: chunks, headers: map[string]string{"Content-Type": test.contentType}})
				}
				if test.refused {
					for _, amount := range []string{"10", "9999"} {
						got := pay(amount)
						requireProblem(t, http.StatusInternalServerError, "misconfigured", got)
						require.Contains(t, got.body, "mount the guard before")
					}
					require.Zero(t, ran)
					return
				}
				require.Equal(t, "created", pay("10").header.Get("Idempotency-Result"))
				require.Equal(t, "reused", pay("10").header.Get("Idempotency-Result"))
				requireProblem(t, http.StatusConflict, "key_reused", pay("9999"))
				require.Equal(t, 1, ran)
			})
		}
	}
}

func form(amount string) string { return "amount=" + url.QueryEscape(amount) }

func object(amount string) string { return `{"amount":` + amount + `}` }

func zip(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// bodyBytes is the body that ShouldBindBodyWith has kept.
func bodyBytes(c *gin.Context) io.ReadCloser {
	kept, _ := c.Get(gin.BodyBytesKey)
	return io.NopCloser(bytes.NewReader(kept.([]byte)))
}
