package interop_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"

	ginjwt2 "github.com/appleboy/gin-jwt/v2"
	ginjwt "github.com/appleboy/gin-jwt/v3"
	"github.com/gin-contrib/sessions"
	"github.com/gin-contrib/sessions/cookie"
	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/ginidem"
)

const wantSeller = shop + ` "" 17 [seller]`

// CONTRACT O-2, S-1
func TestGinJWT3(t *testing.T) {
	middleware, err := ginjwt.New(&ginjwt.GinJWTMiddleware{
		Realm: "shop", Key: secretKey, Authenticator: noPrincipal,
		PayloadFunc: func(data any) jwt.MapClaims {
			user := data.(*account)
			return jwt.MapClaims{"iss": shop, "sub": strconv.Itoa(user.ID), "roles": user.Roles}
		},
	})
	require.NoError(t, err)
	claims := authctx.Claims{Issuers: []string{shop}}
	bridge := ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) {
		return claims.Principal(ginjwt.ExtractClaims(c))
	}, observer)

	token, err := middleware.TokenGenerator(t.Context(), &account{ID: 17, Roles: []string{"seller"}})
	require.NoError(t, err)
	requireCaller(t, ginApp(t, middleware.MiddlewareFunc(), bridge), bearer(token.AccessToken), wantSeller)
}

// CONTRACT O-2, S-1
func TestGinJWT2(t *testing.T) {
	middleware, err := ginjwt2.New(&ginjwt2.GinJWTMiddleware{
		Realm: "shop", Key: secretKey, Authenticator: noPrincipal,
		PayloadFunc: func(data any) ginjwt2.MapClaims {
			user := data.(*account)
			return ginjwt2.MapClaims{"iss": shop, "sub": strconv.Itoa(user.ID), "roles": user.Roles}
		},
	})
	require.NoError(t, err)
	claims := authctx.Claims{Issuers: []string{shop}}
	bridge := ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) {
		return claims.Principal(jwt.MapClaims(ginjwt2.ExtractClaims(c)))
	}, observer)

	token, _, err := middleware.TokenGenerator(&account{ID: 17, Roles: []string{"seller"}})
	require.NoError(t, err)
	requireCaller(t, ginApp(t, middleware.MiddlewareFunc(), bridge), bearer(token), wantSeller)
}

// A number of jwt.MapClaims is a float64. Whoever reads it as another type gets 401, and the event says why.
//
// CONTRACT O-2, O-7
func TestGinNumberOfMapClaims(t *testing.T) {
	own := func(c *gin.Context) { c.Set("user_id", jwt.MapClaims{"user_id": float64(17)}["user_id"]) }
	var told refusals
	wrong := ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) {
		return authctx.User(shop, c.GetUint("user_id"))
	}, &told)
	require.Equal(t, http.StatusUnauthorized, payout(ginApp(t, own, wrong), bearer("any")).Code)
	require.Contains(t, told.reasons[0], "a number of jwt.MapClaims is a float64")

	bridge := ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) {
		return authctx.User(shop, uint(c.GetFloat64("user_id"))) // kept as jwt.MapClaims had it
	}, observer)
	w := payout(ginApp(t, own, bridge), bearer("any"))
	require.Equal(t, http.StatusCreated, w.Code)
	require.Equal(t, shop+` "" 17 []`, w.Body.String())
}

func noPrincipal(*gin.Context) (any, error) { return nil, ginjwt.ErrFailedAuthentication }

// The tokens that gin-jwt makes by default have neither "iss" nor "sub". The event says so, and not the token.
//
// CONTRACT O-7
func TestGinJWTWithoutPayload(t *testing.T) {
	var told refusals
	claims := authctx.Claims{Issuers: []string{shop}}
	for payload, want := range map[string]string{"iss": `the token has no "sub"`, "": `the token has no "iss"`} {
		middleware, err := ginjwt.New(&ginjwt.GinJWTMiddleware{
			Realm: "shop", Key: secretKey, Authenticator: noPrincipal,
			PayloadFunc: func(any) jwt.MapClaims {
				if payload != "" {
					return jwt.MapClaims{payload: shop}
				}
				return nil
			},
		})
		require.NoError(t, err)
		bridge := ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) {
			return claims.Principal(ginjwt.ExtractClaims(c))
		}, &told)
		token, err := middleware.TokenGenerator(context.Background(), &account{ID: 17})
		require.NoError(t, err)
		w := payout(ginApp(t, middleware.MiddlewareFunc(), bridge), bearer(token.AccessToken))
		require.Equal(t, http.StatusUnauthorized, w.Code)
		require.Contains(t, told.reasons[len(told.reasons)-1], want)
		require.Contains(t, told.reasons[len(told.reasons)-1], "PayloadFunc")
		require.NotContains(t, told.reasons[len(told.reasons)-1], token.AccessToken)
	}
}

// CONTRACT O-2
func TestGinSessions(t *testing.T) {
	bridge := ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) {
		id, _ := sessions.Default(c).Get("user_id").(int)
		return authctx.User(shop, id)
	}, observer)

	store := sessions.Sessions("session", cookie.NewStore(secretKey))
	login := gin.New()
	login.Use(store)
	login.POST("/v1/payouts", func(c *gin.Context) {
		session := sessions.Default(c)
		session.Set("user_id", 17)
		require.NoError(t, session.Save())
	})
	cookies := payout(login, nil).Result().Cookies()
	require.Len(t, cookies, 1)
	authorize := func(r *http.Request) { r.AddCookie(cookies[0]) }
	requireCaller(t, ginApp(t, store, bridge), authorize, shop+` "" 17 []`)
}
