package main

import (
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/ginidem"
)

// The two routes of an app have the same handler, JWT guard and roles guard.
const (
	guardedPath = path        // and a key
	barePath    = "/v1/notes" // and no key
)

const secret = "a secret of a benchmark, thirty-two bytes"

// service is an app with an adapter and with guards, in memory: what the library costs there.
type service struct {
	handler http.Handler
	bearer  []string
}

func openService(framework string) (*service, error) {
	module, err := core.New(core.Config{Store: memstore.New(), Routes: core.Routes{
		"POST " + guardedPath: {Recovery: core.Park, Roles: []string{"customer"}},
		"POST " + barePath:    {Exempt: "what the guarded route is compared with", Roles: []string{"customer"}},
	}})
	if err != nil {
		return nil, err
	}
	verifier, err := authctx.New(authctx.Config{
		Keyfunc:    func(*jwt.Token) (any, error) { return []byte(secret), nil },
		Algorithms: []string{"HS256"}, Issuer: principal.Issuer, Audience: []string{"payments"},
	})
	if err != nil {
		return nil, err
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": principal.Issuer, "aud": "payments", "sub": principal.Subject, "roles": []string{"customer"},
		"exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString([]byte(secret))
	if err != nil {
		return nil, err
	}
	app := ginService
	if framework == "Echo" {
		app = echoService
	}
	return &service{app(module, verifier), []string{"Bearer " + token}}, nil
}

func ginService(m *core.Module, v *authctx.Verifier) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	handler := func(c *gin.Context) {
		_, _ = io.Copy(io.Discard, c.Request.Body)
		c.Data(http.StatusCreated, "application/json", payload)
	}
	v1 := r.Group("/v1", ginidem.JWTGuard(v))
	v1.POST("/payments", ginidem.Idempotent(m), handler)
	v1.POST("/notes", ginidem.RolesGuard(m), handler)
	return r
}

func echoService(m *core.Module, v *authctx.Verifier) http.Handler {
	e := echo.New()
	handler := func(c echo.Context) error {
		_, _ = io.Copy(io.Discard, c.Request().Body)
		return c.Blob(http.StatusCreated, "application/json", payload)
	}
	v1 := e.Group("/v1", echoidem.JWTGuard(v))
	v1.POST("/payments", handler, echoidem.Idempotent(m))
	v1.POST("/notes", handler, echoidem.RolesGuard(m))
	return e
}

// at is the service behind one of its routes.
func (s *service) at(path string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = path
		r.Header["Authorization"] = s.bearer
		s.handler.ServeHTTP(w, r)
	})
}
