package app

import (
	"fmt"
	"strings"

	"github.com/auth19/idem/core"
)

// trial is what the printed lines try: the key of a payment that does not exist yet, the operation that it will be, and the
// path that signs the operator in.
type trial struct {
	key       string
	operation core.ID
	signIn    string
}

// banner tells a newcomer where the app is, who may call, what to try, and how to stop it. Programs may rely on the
// lines "NAME: TOKEN", and on "listening on URL" after them.
func banner(s Settings, url string, tokens []token, try trial) string {
	var b strings.Builder
	if s.isDemo() {
		fmt.Fprintf(&b, "Open %s/ in a browser: one Pay button, with a key and without one.\n\n", url)
	} else {
		fmt.Fprintf(&b, "%s/\n\n", url)
	}
	fmt.Fprintf(&b, "database: %v\n", s.Database)
	if s.Unsafe {
		fmt.Fprintln(&b, "UNSAFE_SIMULATOR=1: the methods that hang, crash and lose answers are allowed")
	}
	if len(tokens) == 0 {
		fmt.Fprintf(&b, "JWKS_URL is set: get tokens from the owner of its keys (issuer %s, audience %s)\n", issuer, audience)
		fmt.Fprintf(&b, "listening on %s\n%s", url, stopLine(s))
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
	fmt.Fprintf(&b, "TOKEN=%s\nKEY=%s\n\n", tokens[0].text, try.key)
	fmt.Fprintf(&b, "# pay\n%s\n\n", payLine(url, "12.50"))
	fmt.Fprintf(&b, "# repeat it: the same answer, and nothing is paid again\n%s\n\n", payLine(url, "12.50"))
	fmt.Fprintf(&b, "# the same key for another amount: refused with 409\n%s\n\n", payLine(url, "99.00"))
	fmt.Fprintf(&b, "# ask what became of the payment: nothing is run\n%s\n\n", operationLine(url, try.operation))
	fmt.Fprintf(&b, "# a payout (Park): the money is sent, the answer is lost, nobody knows, and nothing is sent again\n%s\n\n",
		payoutLine(url, tokens, try.key))
	fmt.Fprintf(&b, "# the pages for operators, in a browser, where it can be settled after a minute: this link signs "+
		"operator-1 in\n%s%s\n\n", url, try.signIn)
	fmt.Fprint(&b, stopLine(s))
	return b.String()
}

// payLine is a payment for a shell that knows TOKEN and KEY.
func payLine(url, amount string) string {
	return `curl -i ` + url + `/v1/payments -H "Authorization: Bearer $TOKEN" -H "Idempotency-Key: $KEY" ` +
		`-H "Content-Type: application/json" -d '{"order_id":"o-1","amount":"` + amount +
		`","currency":"EUR","method":"pm_ok"}'`
}

// payoutLine is a payout that becomes unknown. It works alone: the key is the payment's, and that of another caller.
func payoutLine(url string, tokens []token, key string) string {
	seller := tokens[0].text
	for _, t := range tokens {
		if t.name == sellerName {
			seller = t.text
		}
	}
	return `curl -i ` + url + `/v1/payouts -H "Authorization: Bearer ` + seller + `" -H "Idempotency-Key: ` + key + `" ` +
		`-H "Content-Type: application/json" -d '{"amount":"77.10","currency":"EUR","method":"pm_error"}'`
}

// operationLine asks for the operation, for a shell that knows TOKEN.
func operationLine(url string, id core.ID) string {
	return `curl -i ` + url + `/v1/operations/` + id.String() + ` -H "Authorization: Bearer $TOKEN"`
}

// stopLine says how to stop the app, and what stays.
func stopLine(s Settings) string {
	return fmt.Sprintf("Stop the app with Ctrl+C: it first answers the requests that are running. "+
		"What was paid stays in %v.\n\n", s.Database)
}
