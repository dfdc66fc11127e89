package authctx_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/auth19/idem/authctx"
	"github.com/golang-jwt/jwt/v5"
)

// A guard for net/http. Those of ginidem and echoidem do the same.
func Example() {
	secret := []byte("thirty-two bytes from a vault ...")
	verifier, err := authctx.New(authctx.Config{
		Issuer:     "https://issuer.example",
		Audience:   []string{"payments"},
		Algorithms: []string{"HS256"},
		Keyfunc:    func(*jwt.Token) (any, error) { return secret, nil },
	})
	if err != nil {
		panic(err)
	}
	guard := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			principal, err := verifier.VerifyRequest(r)
			if err != nil {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "unauthenticated", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r.WithContext(authctx.NewContext(r.Context(), principal)))
		})
	}
	app := guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, _ := authctx.FromContext(r.Context())
		fmt.Fprintln(w, "hello", principal.Subject, "of", principal.Tenant, principal.Roles)
	}))

	r := httptest.NewRequest(http.MethodGet, "/v1/me", http.NoBody)
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	fmt.Println(w.Code)

	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": "https://issuer.example", "aud": "payments", "sub": "customer-1", "tenant": "shop-7",
		"roles": []string{"customer"}, "exp": time.Now().Add(5 * time.Minute).Unix(),
	}).SignedString(secret)
	if err != nil {
		panic(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	w = httptest.NewRecorder()
	app.ServeHTTP(w, r)
	fmt.Print(w.Code, " ", w.Body)
	// Output:
	// 401
	// 200 hello customer-1 of shop-7 [customer]
}

// The principal out of a token that another middleware has verified, echo-jwt for instance.
func ExampleClaims_FromToken() {
	claims := authctx.Claims{Issuers: []string{"https://issuer.example"}, TenantClaim: "org", RolesClaim: "scope"}
	if err := claims.Check(); err != nil {
		panic(err)
	}
	token := &jwt.Token{Valid: true, Claims: jwt.MapClaims{ // c.Get("user").(*jwt.Token)
		"iss": "https://issuer.example", "sub": "customer-1", "org": "acme", "scope": "pay refund",
		"exp": float64(time.Now().Add(5 * time.Minute).Unix()),
	}}
	principal, err := claims.FromToken(token)
	fmt.Println(principal.Tenant, principal.Subject, principal.Roles, err)

	token.Valid = false // the middleware let an error pass
	_, err = claims.FromToken(token)
	fmt.Println(errors.Is(err, authctx.ErrUnauthenticated), err)
	// Output:
	// acme customer-1 [pay refund] <nil>
	// true idem: unauthenticated: no verified token; mount Bridge behind the middleware that verifies it, and take the token from where that middleware puts it
}
