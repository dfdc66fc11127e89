package app

import (
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

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

// The printed link lets nobody in after its time, nor with another secret.
func TestLinkEnds(t *testing.T) {
	s := signIn{secret: "a secret"}
	now := time.Now()
	_, mac, _ := strings.Cut(s.ticket(now.Add(-time.Hour)), "_")
	longer := strconv.FormatInt(now.Add(time.Hour).Unix(), 36) + "_" + mac
	require.True(t, s.admits(s.ticket(now.Add(time.Hour))))
	for _, ticket := range []string{
		s.ticket(now.Add(-time.Second)), signIn{secret: "another"}.ticket(now.Add(time.Hour)), s.ticket(now.Add(time.Hour)) + "x",
		longer, "", "_", "zz",
	} {
		require.False(t, s.admits(ticket), ticket)
	}
	require.False(t, signIn{}.admits(signIn{}.ticket(now.Add(time.Hour))), "no link is printed")
}
