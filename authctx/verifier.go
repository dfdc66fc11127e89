package authctx

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// MaxLeeway is the largest difference of clocks that is tolerated.
const MaxLeeway = 2 * time.Minute

// Config says which tokens of one issuer are trusted. All fields without a default are required.
type Config struct {
	// Issuer is the value of "iss".
	Issuer string
	// Audience are the names of this API: "aud" must contain one of them. Without this check, a token for another API of
	// the same issuer would be accepted (RFC 8725, section 3.9).
	Audience []string
	// Algorithms are the values of "alg" that the issuer signs with, such as "RS256", "ES256" or "EdDSA" (RFC 8725,
	// section 3.1). New refuses "none". It also refuses HS256, HS384 and HS512 together with others, because a public key
	// could be used as their secret.
	Algorithms []string
	// Keyfunc returns the key to check a token's signature with. It must return only keys of this issuer. No token is accepted
	// with a secret that is shorter than the hash of "alg" (32, 48 or 64 bytes), nor with an RSA key below 2048 bits. For a
	// JWKS address see docs/auth.md: not keyfunc.NewDefaultCtx.
	Keyfunc jwt.Keyfunc
	// Leeway is how far the clocks of issuer and server may be apart when "exp", "nbf" and "iat" are checked: 0 to
	// [MaxLeeway], default 0.
	Leeway time.Duration

	// Type is the "typ" that the header of every token must have, such as "at+jwt" (RFC 9068, section 4), if the issuer writes
	// one: then its ID tokens and logout tokens pass nowhere, even if their "aud" is in Audience. Default: any, or none.
	Type string

	// TenantClaim and RolesClaim name the claims with the tenant and the roles, or are paths to them: see [Claims].
	TenantClaim, RolesClaim string
	// Tenant finds the tenant in place of TenantClaim: see [Claims].
	Tenant func(claims jwt.MapClaims) (string, error)
}

// Verifier verifies bearer tokens. It is safe for use by any number of goroutines.
type Verifier struct {
	issuers map[string]*issuer
	only    *issuer // set if there is just one issuer
}

// issuer is a Config that is ready for use.
type issuer struct {
	parser  *jwt.Parser
	keyfunc jwt.Keyfunc
	typ     string // of every token; "": any
	claims  Claims
}

// New returns a verifier for the tokens of one or more issuers. Each issuer has its own keys, so none can sign for
// another. The error names every wrong field and the fix.
func New(configs ...Config) (*Verifier, error) {
	v := &Verifier{issuers: make(map[string]*issuer, len(configs))}
	var errs []error
	if len(configs) == 0 {
		errs = append(errs, errors.New("no Config; pass one for each issuer"))
	}
	for i, cfg := range configs {
		for _, err := range cfg.check() {
			errs = append(errs, fmt.Errorf("Config %d: %w", i+1, err))
		}
		if v.issuers[cfg.Issuer] != nil {
			errs = append(errs, fmt.Errorf("Config %d: Issuer: %q has a Config already; join the two", i+1, cfg.Issuer))
		}
		v.only = cfg.issuer()
		v.issuers[cfg.Issuer] = v.only
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("idem: authctx.New: %w", errors.Join(errs...))
	}
	if len(configs) > 1 {
		v.only = nil
	}
	return v, nil
}

func (cfg Config) issuer() *issuer {
	return &issuer{
		parser: jwt.NewParser(jwt.WithValidMethods(slices.Clone(cfg.Algorithms)), jwt.WithIssuer(cfg.Issuer),
			jwt.WithAudience(slices.Clone(cfg.Audience)...), jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
			jwt.WithLeeway(cfg.Leeway)),
		keyfunc: cfg.Keyfunc, typ: mediaType(cfg.Type),
		claims: Claims{
			Issuers: []string{cfg.Issuer}, TenantClaim: cfg.TenantClaim, Tenant: cfg.Tenant, RolesClaim: cfg.RolesClaim,
		},
	}
}

// check returns what is wrong with cfg.
func (cfg Config) check() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if cfg.Issuer == "" {
		bad(`Issuer: is required; the value of "iss" in your tokens`)
	}
	if len(cfg.Audience) == 0 || slices.Contains(cfg.Audience, "") {
		bad(`Audience: is required; the value of "aud" that names this API`)
	}
	if cfg.Keyfunc == nil {
		bad("Keyfunc: is required; a function that returns the key. docs/auth.md has one for a JWKS address")
	}
	if cfg.Leeway < 0 || cfg.Leeway > MaxLeeway {
		bad("Leeway: %v is not between 0 and %v", cfg.Leeway, MaxLeeway)
	}
	if cfg.TenantClaim != "" && cfg.Tenant != nil {
		bad("Tenant: set it or TenantClaim, not both")
	}
	if len(cfg.Algorithms) == 0 {
		bad(`Algorithms: is required; the algorithms that the issuer signs with, such as "RS256"`)
	}
	symmetric := 0
	for _, name := range cfg.Algorithms {
		switch method := jwt.GetSigningMethod(name); {
		case strings.EqualFold(name, "none"):
			bad("Algorithms: %q accepts unsigned tokens; remove it", name)
		case method == nil:
			bad("Algorithms: %q is not known; names are case-sensitive, as in RS256, ES256, EdDSA", name)
		default:
			if _, ok := method.(*jwt.SigningMethodHMAC); ok {
				symmetric++
			}
		}
	}
	if symmetric > 0 && symmetric < len(cfg.Algorithms) {
		bad("Algorithms: HS256, HS384 and HS512 use a shared secret, the others a key pair; list only the issuer's kind")
	}
	return errs
}

// VerifyRequest returns the principal of the request's bearer token: [BearerToken], then Verify.
func (v *Verifier) VerifyRequest(r *http.Request) (Principal, error) {
	token, err := BearerToken(r.Header)
	if err != nil {
		return Principal{}, err
	}
	return v.Verify(token)
}

// maxTokenLen is the longest token that is read, in bytes.
const maxTokenLen = 16 << 10

// Verify returns the principal of token. It checks the signature, "alg", "iss", "aud" and "exp", and also "nbf" and
// "iat" if the token has them. It checks the other claims as [Claims] does. All errors are [ErrUnauthenticated].
func (v *Verifier) Verify(token string) (Principal, error) {
	if len(token) > maxTokenLen {
		return Principal{}, refuse("the token is too long", nil)
	}
	issuer := v.only
	if issuer == nil {
		// This unverified claim only chooses the issuer whose keys check the token.
		var claimed jwt.RegisteredClaims
		if _, _, err := jwt.NewParser().ParseUnverified(token, &claimed); err != nil {
			return Principal{}, refuseToken(err)
		}
		if issuer = v.issuers[claimed.Issuer]; issuer == nil {
			return Principal{}, refuseToken(jwt.ErrTokenInvalidIssuer)
		}
	}
	parsed, err := issuer.parser.Parse(token, issuer.key)
	if err != nil {
		return Principal{}, refuseToken(err)
	}
	return issuer.claims.FromToken(parsed)
}

// key returns the key to check token with.
func (i *issuer) key(token *jwt.Token) (any, error) {
	if _, ok := token.Header["crit"]; ok {
		return nil, errors.New("idem: the token requires an extension that is not supported (RFC 7515, section 4.1.11)")
	}
	if typ, _ := token.Header["typ"].(string); i.typ != "" && mediaType(typ) != i.typ {
		return nil, errTokenType
	}
	key, err := i.keyfunc(token)
	if err == nil {
		err = usable(token.Method, key)
	}
	return key, err
}

// minRSA is the shortest RSA key, in bits (RFC 7518, section 3.3).
const minRSA = 2048

// usable returns an error if a key, or one of a set, must not verify a signature: a secret that can be guessed, an RSA key
// that can be factored, or no key at all. A set often holds the secret from before a rotation, and that one may be unset.
func usable(method jwt.SigningMethod, key jwt.VerificationKey) error {
	missing := key == nil
	switch key := key.(type) {
	case jwt.VerificationKeySet:
		for _, one := range key.Keys {
			if err := usable(method, one); err != nil {
				return err
			}
		}
		missing = len(key.Keys) == 0
	case []byte:
		if hmac, ok := method.(*jwt.SigningMethodHMAC); ok && len(key) < hmac.Hash.Size() {
			return refuse(fmt.Sprintf("Keyfunc returned a short secret; a secret of %s needs at least %d random bytes (RFC 7518, "+
				"section 3.2)", hmac.Name, hmac.Hash.Size()), nil)
		}
	case *rsa.PublicKey:
		if missing = key == nil || key.N == nil; !missing && key.N.BitLen() < minRSA {
			return refuse(fmt.Sprintf("Keyfunc returned a short key; an RSA key needs at least %d bits (RFC 7518, section 3.3)",
				minRSA), nil)
		}
	case *ecdsa.PublicKey:
		missing = key == nil || key.Curve == nil || key.X == nil || key.Y == nil //nolint:staticcheck // no arithmetic
	case ed25519.PublicKey:
		missing = len(key) == 0
	}
	if missing {
		return refuse("Keyfunc returned no key, and no error", nil)
	}
	return nil
}

var errTokenType = errors.New("idem: the type of the token is not Config.Type")

// mediaType is a "typ" as it is compared: without its prefix, and in lower case (RFC 7515, section 4.1.9).
func mediaType(typ string) string {
	return strings.TrimPrefix(strings.ToLower(typ), "application/")
}
