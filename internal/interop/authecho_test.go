package interop_test

import (
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	echojwt "github.com/labstack/echo-jwt/v4"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/echoidem"
)

// CONTRACT O-2, S-1
func TestEchoJWT(t *testing.T) {
	claims := authctx.Claims{Issuers: []string{shop}}
	bridge := echoidem.Bridge(func(c echo.Context) (authctx.Principal, error) {
		token, _ := c.Get("user").(*jwt.Token)
		return claims.FromToken(token)
	}, observer)
	middleware := echojwt.WithConfig(echojwt.Config{SigningKey: secretKey})

	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": shop, "sub": "17", "roles": []string{"seller"}, "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString(secretKey)
	require.NoError(t, err)
	requireCaller(t, echoApp(t, middleware, bridge), bearer(token), wantSeller)

	// An error handler that continues opens nothing.
	lenient := echojwt.WithConfig(echojwt.Config{
		SigningKey: secretKey, ContinueOnIgnoredError: true, ErrorHandler: func(echo.Context, error) error { return nil },
	})
	requireCaller(t, echoApp(t, lenient, bridge), bearer(token), wantSeller)
}

// userClaims are the claims of an app that knows its users by a number.
type userClaims struct {
	jwt.RegisteredClaims
	UserID uint `json:"user_id"`
}

// CONTRACT O-2, S-1
func TestEchoJWTWithUserID(t *testing.T) {
	bridge := echoidem.Bridge(func(c echo.Context) (authctx.Principal, error) {
		token, ok := c.Get("user").(*jwt.Token)
		if !ok {
			return authctx.Principal{}, authctx.ErrUnauthenticated
		}
		return authctx.User(shop, token.Claims.(*userClaims).UserID)
	}, observer)
	middleware := echojwt.WithConfig(echojwt.Config{
		SigningKey: secretKey, NewClaimsFunc: func(echo.Context) jwt.Claims { return &userClaims{} },
	})

	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, userClaims{
		UserID: 17, RegisteredClaims: jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour))},
	}).SignedString(secretKey)
	require.NoError(t, err)
	requireCaller(t, echoApp(t, middleware, bridge), bearer(token), shop+` "" 17 []`)
}
