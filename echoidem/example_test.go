package echoidem_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/labstack/echo/v4"
	"github.com/ncruces/go-sqlite3/gormlite"
	"gorm.io/gorm"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/gormstore"
)

// A money route whose effects are rows of the app's own database.
func Example() {
	db, verifier, done := exampleApp()
	defer done()

	// Ten lines, from here.
	store, err := gormstore.New(db)
	check(err)
	defer func() { check(store.Close()) }()
	idem, err := core.New(core.Config{Store: store, Routes: core.Routes{
		"POST /v1/payments": {Recovery: core.Rollback, Roles: []string{"customer"}},
	}})
	check(err)
	e := echo.New()
	echoidem.Observe(e) // for the audit, before the first route
	v1 := e.Group("/v1", echoidem.JWTGuard(verifier), echoidem.Money(idem))
	v1.POST("/payments", func(c echo.Context) error {
		p := payment{Amount: 12}
		if err := gormstore.Tx(c.Request().Context()).Create(&p).Error; err != nil { // commits with the answer
			return err
		}
		return c.JSON(http.StatusCreated, echo.Map{"payment": p.ID})
	})
	check(echoidem.Audit(e, idem))
	// To here.

	for range 2 {
		w := examplePost(e, "/v1/payments", "one-key-per-intent")
		fmt.Println(w.Code, strings.TrimSpace(w.Body.String()), w.Header().Get("Idempotency-Result"))
	}
	var rows int64
	check(db.Model(&payment{}).Count(&rows).Error)
	fmt.Println("rows:", rows)
	// Output:
	// 201 {"payment":1} created
	// 201 {"payment":1} reused
	// rows: 1
}

// An app that has a JWT middleware already keeps it. What it leaves in Echo's context becomes the principal: with
// echo-jwt, the token under "user".
func ExampleBridge() {
	claims := authctx.Claims{Issuers: []string{"https://issuer.example"}}
	check(claims.Check())
	theirs := func(next echo.HandlerFunc) echo.HandlerFunc { // stands for the app's middleware
		return func(c echo.Context) error {
			c.Set("user", &jwt.Token{Valid: true, Claims: jwt.MapClaims{
				"iss": "https://issuer.example", "sub": "customer-1", "exp": float64(time.Now().Add(time.Hour).Unix())}})
			return next(c)
		}
	}

	idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	check(err)
	e := echo.New()
	echoidem.Observe(e)
	e.Use(theirs, echoidem.Bridge(func(c echo.Context) (authctx.Principal, error) {
		token, _ := c.Get("user").(*jwt.Token)
		return claims.FromToken(token) // refuses nil, and what was not verified
	}), echoidem.Money(idem))
	e.POST("/payouts", func(c echo.Context) error {
		p, _ := authctx.From(c.Request().Context())
		return c.String(http.StatusCreated, "paid out to "+p.Subject)
	})
	check(echoidem.Audit(e, idem))
	fmt.Println(examplePost(e, "/payouts", "key-1").Body)
	// Output: paid out to customer-1
}

// exampleApp is what an app has anyhow: a database and somebody to verify tokens.
func exampleApp() (db *gorm.DB, verifier *authctx.Verifier, done func()) {
	dir, err := os.MkdirTemp("", "idem")
	check(err)
	db, err = gorm.Open(gormlite.Open("file:" + filepath.Join(dir, "app.db") +
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"))
	check(err)
	check(db.AutoMigrate(&payment{}))
	check(gormstore.Migrate(context.Background(), db))
	verifier, err = authctx.New(authctx.Config{
		Issuer: "https://issuer.example", Audience: []string{"payments"}, Algorithms: []string{"HS256"},
		Keyfunc: func(*jwt.Token) (any, error) { return secret, nil },
	})
	check(err)
	return db, verifier, func() {
		pool, err := db.DB()
		check(err)
		check(pool.Close())
		check(os.RemoveAll(dir))
	}
}

// examplePost sends a command of customer-1.
func examplePost(app http.Handler, path, key string) *httptest.ResponseRecorder {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claimsOf("customer-1", "customer")).SignedString(secret)
	check(err)
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"amount":"12.00"}`))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	return w
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
