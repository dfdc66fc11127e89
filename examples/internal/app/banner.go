package app

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// banner tells a newcomer who may call, where the app is, and what to try. Programs may rely on the lines
// "NAME: TOKEN", and on "listening on URL" after them.
func banner(s Settings, url string, tokens []token) string {
	var b strings.Builder
	fmt.Fprintf(&b, "database: %v\n", s.Database)
	if s.Unsafe {
		fmt.Fprintln(&b, "UNSAFE_SIMULATOR=1: the methods that hang, crash and lose answers are allowed")
	}
	if len(tokens) == 0 {
		fmt.Fprintf(&b, "JWKS_URL is set: get tokens from the owner of its keys (issuer %s, audience %s)\n", issuer, audience)
		fmt.Fprintf(&b, "listening on %s\n", url)
		return b.String()
	}
	if s.JWTSecret == developmentSecret {
		fmt.Fprintf(&b, "JWT_SECRET is not set: tokens are signed with the development secret %q\n", developmentSecret)
	}
	fmt.Fprintf(&b, "\nTokens, valid for %v:\n\n", tokenLife)
	for _, t := range tokens {
		fmt.Fprintf(&b, "%s: %s\n", t.name, t.text)
	}
	fmt.Fprintf(&b, "\nlistening on %s\n\nTry it in another terminal:\n\n", url)
	fmt.Fprintf(&b, "TOKEN=%s\nKEY=%s\n\n", tokens[0].text, rand.Text()[:10])
	fmt.Fprintf(&b, "# pay\n%s\n\n", payLine(url, "12.50"))
	fmt.Fprintf(&b, "# repeat it: the same answer, and nothing is paid again\n%s\n\n", payLine(url, "12.50"))
	fmt.Fprintf(&b, "# the same key for another amount: refused with 409\n%s\n\n", payLine(url, "99.00"))
	return b.String()
}

// payLine is a payment for a shell that knows TOKEN and KEY.
func payLine(url, amount string) string {
	return `curl -i ` + url + `/v1/payments -H "Authorization: Bearer $TOKEN" -H "Idempotency-Key: $KEY" ` +
		`-H "Content-Type: application/json" -d '{"order_id":"o-1","amount":"` + amount +
		`","currency":"EUR","method":"pm_ok"}'`
}
