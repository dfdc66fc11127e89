package app

import (
	"context"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/examples/internal/shop"
)

const (
	issuer   = "https://issuer.example"
	audience = "payments"
)

// verifier returns a verifier for the tokens of callers. It uses the shared secret, or the keys of JWKS_URL, which are kept
// up to date until ctx ends.
func (s Settings) verifier(ctx context.Context) (*authctx.Verifier, error) {
	config := authctx.Config{
		Issuer: issuer, Audience: []string{audience}, Algorithms: []string{"HS256"},
		Keyfunc: func(*jwt.Token) (any, error) { return []byte(s.JWTSecret), nil },
	}
	if s.JWKSURL != "" {
		keys, err := newRemoteKeys(ctx, s.JWKSURL)
		if err != nil {
			return nil, fmt.Errorf("JWKS_URL: %w", err)
		}
		config.Algorithms = []string{"RS256", "ES256", "EdDSA"}
		config.Keyfunc = keys.key
	}
	return authctx.New(config)
}

// token is a ready-made token for trying the app.
type token struct{ name, text string }

// tokenLife is how long a ready-made token is valid.
const tokenLife = 24 * time.Hour

const operatorName, sellerName = "operator-1", "seller-1"

// callers have a ready-made token each.
var callers = []struct{ name, role string }{
	{"customer-1", shop.RoleCustomer}, {"customer-2", shop.RoleCustomer},
	{sellerName, shop.RoleSeller}, {operatorName, shop.RoleOperator},
}

// tokens makes a token for each of the callers; none where the app only has public keys.
func (s Settings) tokens(now time.Time) ([]token, error) {
	if s.JWKSURL != "" {
		return nil, nil
	}
	var made []token
	for _, who := range callers {
		text, err := s.sign(who.name, who.role, now)
		if err != nil {
			return nil, err
		}
		made = append(made, token{who.name, text})
	}
	return made, nil
}

// sign makes a token with the shared secret.
func (s Settings) sign(name, role string, now time.Time) (string, error) {
	return jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": issuer, "aud": audience, "sub": name, "roles": []string{role},
		"iat": now.Unix(), "exp": now.Add(tokenLife).Unix(),
	}).SignedString([]byte(s.JWTSecret))
}
