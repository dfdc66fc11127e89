package app

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// The cookie is a token. Only on the machine of the browser itself may it go without TLS.
func TestCookieNeedsTLS(t *testing.T) {
	for host, secure := range map[string]bool{
		"127.0.0.1:8080": false, "localhost:8080": false, "localhost": false, "[::1]:8080": false,
		"shop.example": true, "shop.example:8080": true, "10.0.0.7:8080": true, "localhost.shop.example": true, "": true,
	} {
		r := httptest.NewRequest("POST", "/idem-sign-in", nil)
		r.Host = host
		w := httptest.NewRecorder()
		enter(w, r, "token")
		require.Equal(t, secure, w.Result().Cookies()[0].Secure, host)
	}
}
