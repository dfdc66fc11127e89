package interop_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	gingzip "github.com/gin-contrib/gzip"
	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/ginidem"
)

// A body that is compressed has a time in it. In front of the guards a decoder makes two of them one command; behind the key
// guard they are two, and the audit says so.
//
// CONTRACT D-2, H-1
func TestDecoders(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	idem := newModule(t)
	verifier, sign := newIssuer(t)
	token := "Bearer " + sign(jwt.MapClaims{"sub": "customer-1"})
	decoder := gingzip.Gzip(gingzip.DefaultCompression, gingzip.WithDecompressFn(gingzip.DefaultDecompressHandle))
	pay := func(c *gin.Context) {
		body, err := io.ReadAll(c.Request.Body)
		require.NoError(t, err)
		c.String(http.StatusCreated, "paid "+string(body))
	}
	zipped := func(at time.Time) io.Reader {
		var body bytes.Buffer
		w := gzip.NewWriter(&body)
		w.ModTime = at
		_, err := io.WriteString(w, `{"amount":10}`)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return &body
	}
	for name, test := range map[string]struct {
		handlers []gin.HandlerFunc
		repeat   int
		finding  string
	}{
		"in-front": {[]gin.HandlerFunc{decoder, ginidem.JWTGuard(verifier), ginidem.Idempotent(idem), pay}, http.StatusCreated, ""},
		"behind": {[]gin.HandlerFunc{ginidem.JWTGuard(verifier), ginidem.Idempotent(idem), decoder, pay}, http.StatusConflict,
			"gzip.(*gzipHandler).Handle"},
		"behind-alone": {[]gin.HandlerFunc{ginidem.JWTGuard(verifier), ginidem.Idempotent(idem),
			gingzip.DefaultDecompressHandle, pay}, http.StatusConflict, "gzip.DefaultDecompressHandle"},
	} {
		t.Run(name, func(t *testing.T) {
			r := gin.New()
			r.POST("/v1/payments", test.handlers...)
			if err := ginidem.Audit(r, idem); test.finding == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "POST /v1/payments: may decode its body behind the key guard: "+test.finding)
			}
			server := httptest.NewServer(r)
			defer server.Close()
			for i, status := range []int{http.StatusCreated, test.repeat} {
				request, err := http.NewRequest(http.MethodPost, server.URL+"/v1/payments", zipped(time.Unix(int64(1000+i), 0)))
				require.NoError(t, err)
				request.Header = http.Header{"Authorization": {token}, "Idempotency-Key": {name}, "Content-Encoding": {"gzip"},
					"Content-Type": {"application/json"}}
				answer, err := http.DefaultClient.Do(request)
				require.NoError(t, err)
				require.NoError(t, answer.Body.Close())
				require.Equal(t, status, answer.StatusCode)
			}
		})
	}
}
