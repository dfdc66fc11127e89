package authctx

import (
	"net/http"
	"strings"
)

// tokenAlphabet holds the characters of a bearer token without its padding (RFC 6750, section 2.1).
const tokenAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/"

// BearerToken returns the token of the Authorization header (RFC 6750, section 2.1). It refuses more than one such
// header, another scheme, and anything after the token. All errors are [ErrUnauthenticated].
func BearerToken(header http.Header) (string, error) {
	lines := header["Authorization"]
	switch {
	case len(lines) == 0:
		return "", refuse("no Authorization header", nil)
	case len(lines) > 1:
		return "", refuse("more than one Authorization header", nil)
	}
	scheme, token, _ := strings.Cut(strings.Trim(lines[0], " \t"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", refuse("the Authorization header is not of the scheme Bearer", nil)
	}
	token = strings.TrimLeft(token, " ")
	if unpadded := strings.TrimRight(token, "="); unpadded == "" || strings.Trim(unpadded, tokenAlphabet) != "" {
		return "", refuse("the Authorization header holds no bearer token", nil)
	}
	return token, nil
}
