package idemclient

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/auth19/idem/core/wire"
)

// Provider says how a server takes keys. Start from one of the profiles, and change it where your contract differs. The
// figures are from the providers' public pages in November 2026. If a figure could not be found, the profile has the
// stricter one, and its comment says so. The profiles do not know the providers' own error codes: the rules for retries
// are the same for all (C-2).
type Provider struct {
	// Header is the request header that carries the key. It is empty for a provider that wants the key in the body.
	Header string
	// Member is the member of the JSON body that carries the key, for a provider without a header. The client does not
	// write it, as it never changes a body: the caller gets the key from [Client.Key], and Do refuses a body without it.
	Member string
	// MaxKey is the longest key in characters. Keys that the client makes are UUIDs of 36.
	MaxKey int
	// Lifetime is how long a key is recognised after its first use. A repeat after it would be a new command, and is
	// refused: [ErrTooOld].
	Lifetime time.Duration
	// Definite reports whether an answer is the final answer to the command, even if an earlier attempt had no answer. It is
	// not asked about a 5xx, 409, 425 and 429, which are never final: the command may be running, or have run (C-7). For a
	// 409 there is Existing.
	//
	// If it is nil, the server is one of this library, which marks every answer of a guarded route below 500 with
	// Idempotency-Result or Idempotency-Problem. An answer without a mark may come from a proxy, and the outcome is uncertain
	// from the first attempt on: [ErrStillUncertain]. So set Definite for a server without this library, and for routes
	// without guards: [Succeeded], for instance. Then a 4xx to a first attempt is an answer, too. A 2xx that Definite denies
	// is none: the login page of a proxy, or the 202 of a queue.
	Definite func(status int, header http.Header) bool
	// Existing is for a provider that answers a repeat with 409 and the id of what the command has made. It is asked about a
	// 409 without a mark of this library, and returns that id as the proof that the command was carried out under this key:
	// the answer is then the final one, and [Result].Existing has the id. It returns "" for every other 409, one about
	// another key's command in particular. Optional; without it a 409 is never final (C-7, C-8).
	Existing func(header http.Header, body []byte) string
}

// Succeeded is a function for [Provider].Definite: only a 2xx is the final answer to the command.
func Succeeded(status int, _ http.Header) bool { return status >= 200 && status < 300 }

// definite reports whether an answer is the final answer to the command.
func (p Provider) definite(status int, header http.Header) bool {
	switch only(header, wire.HeaderResult) {
	case wire.ResultCreated, wire.ResultReused:
		return true
	}
	switch status {
	case http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status < http.StatusInternalServerError && p.Definite != nil && p.Definite(status, header)
}

// existing is the id that a 409 names as what the command has made; "" if it proves nothing.
func (p Provider) existing(res *http.Response, body []byte) string {
	marked := len(res.Header[wire.HeaderResult]) > 0 || len(res.Header[wire.HeaderProblem]) > 0
	if res.StatusCode != http.StatusConflict || marked || p.Existing == nil {
		return ""
	}
	return p.Existing(res.Header, body)
}

func (p Provider) isZero() bool {
	return p.Header == "" && p.Member == "" && p.MaxKey == 0 && p.Lifetime == 0 && p.Definite == nil && p.Existing == nil
}

// uuidLen is the length of the keys that the client makes itself.
const uuidLen = 36

// Standard is the header of this library and of draft-ietf-httpapi-idempotency-key-header. Keys have up to 255 characters
// (K-3), and are recognised for 24 h, the shortest retention that a server of this library can have (T-2). Set Definite
// for a server without this library, and for routes without guards.
func Standard() Provider {
	return Provider{Header: "Idempotency-Key", MaxKey: 255, Lifetime: 24 * time.Hour}
}

// Stripe takes keys of up to 255 characters and may forget them after 24 h
// (https://docs.stripe.com/api/idempotent_requests). API v2 is said to keep them for 30 days; that could not be verified,
// and 24 h is taken for both. A success is definite, and so are a declined card (402) and what Stripe marks as replayed,
// unless it is a 409, 429 or 5xx: after a replayed 500 the charge may exist, and the intent stays (C-7). Ask Stripe about
// it.
func Stripe() Provider {
	return Provider{Header: "Idempotency-Key", MaxKey: 255, Lifetime: 24 * time.Hour,
		Definite: func(status int, header http.Header) bool {
			return Succeeded(status, header) || status == http.StatusPaymentRequired ||
				header.Get(wire.HeaderReplayed) == "true"
		}}
}

// Adyen takes keys of up to 64 characters and keeps them for at least 7 days, per company account and region: a repeat
// to another regional endpoint is a new command (https://docs.adyen.com/development-resources/api-idempotency).
func Adyen() Provider {
	return Provider{Header: "Idempotency-Key", MaxKey: 64, Lifetime: 7 * 24 * time.Hour, Definite: Succeeded}
}

// PayPal keeps keys for as long as the reference of each API says: 6 h for Orders v2 (72 h by arrangement), 45 days for
// Payments v2, 3 h for payment tokens (https://developer.paypal.com/docs/api/orders/v2/). The profile has the 6 h of
// orders; set Lifetime for other APIs. Orders take up to 108 characters; other APIs are said to take 38, which could
// not be verified and is what the profile has.
func PayPal() Provider {
	return Provider{Header: "PayPal-Request-Id", MaxKey: 38, Lifetime: 6 * time.Hour, Definite: Succeeded}
}

// CheckoutCom keeps keys for 24 h, and only those of a command that succeeded
// (https://www.checkout.com/docs/payments/manage-payments/idempotency). No length is published; UUIDs are recommended,
// and the profile takes no longer keys.
func CheckoutCom() Provider {
	return Provider{Header: "Cko-Idempotency-Key", MaxKey: 36, Lifetime: 24 * time.Hour, Definite: Succeeded}
}

// Square has no header: its key is the member idempotency_key of the body, of up to 45 characters for payments
// (https://developer.squareup.com/reference/square/payments-api/create-payment). How long it is kept is not published;
// the profile has 1 h, a cautious guess.
func Square() Provider {
	return Provider{Member: "idempotency_key", MaxKey: 45, Lifetime: time.Hour, Definite: Succeeded}
}

func (p Provider) validate() error {
	var errs []error
	if (p.Header == "") == (p.Member == "") {
		errs = append(errs, errors.New("idem: idemclient.Config.Provider needs one of Header and Member, where the key stands"))
	}
	if !isToken(p.Header) {
		errs = append(errs, fmt.Errorf("idem: idemclient.Config.Provider.Header %q is no name of a header", p.Header))
	}
	if p.MaxKey < uuidLen {
		errs = append(errs, fmt.Errorf("idem: idemclient.Config.Provider.MaxKey is %d; keys are UUIDs of %d characters",
			p.MaxKey, uuidLen))
	}
	if p.Lifetime <= 0 {
		errs = append(errs, errors.New("idem: idemclient.Config.Provider.Lifetime is missing: for how long is a key "+
			"recognised?"))
	}
	return errors.Join(errs...)
}

// isToken reports whether s may name a header (RFC 9110, section 5.6.2). The empty name is for validate to judge.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`()<>@,;:\"/[]?={}`, c) >= 0 {
			return false
		}
	}
	return true
}

// checkKey says what is wrong with a key that the caller brings.
func (p Provider) checkKey(key string) error {
	switch {
	case key == "" || len(key) > p.MaxKey:
		return fmt.Errorf("idem: the key has %d characters; the provider takes 1 to %d", len(key), p.MaxKey)
	case strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == ',' }):
		return errors.New("idem: the key may hold only visible ASCII characters, and no comma")
	}
	return nil
}
