package ginidem_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

// Payment is a money row. Once is its second line: a UNIQUE operation.
type Payment struct {
	gormstore.Once `json:"-"`

	ID     uint   `json:"id"`
	Amount string `json:"amount"`
}

// createPayment is a handler on a Rollback route: what it writes through Tx commits with its answer, or not at all.
func createPayment(c *gin.Context) {
	var in struct{ Amount string } // not the row itself: a client must not choose its id
	if err := c.ShouldBindJSON(&in); err != nil {
		c.AbortWithStatus(http.StatusBadRequest)
		return
	}
	p := Payment{Amount: in.Amount}
	switch _, err := gormstore.CreateOnce(gormstore.Tx(c.Request.Context()), &p); {
	case errors.Is(err, gormstore.ErrOtherOperation):
		c.AbortWithStatus(http.StatusConflict)
	case err != nil:
		c.AbortWithStatus(http.StatusInternalServerError) // rolled back: the key is free
	default:
		c.JSON(http.StatusCreated, p)
	}
}

// A money route whose effects are rows of the app's own database.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	var background sync.WaitGroup
	db, verifier, done := exampleApp(ctx)
	defer done()
	defer background.Wait()
	defer stop()
	r := gin.New()

	// Ten lines, from here.
	store, err := gormstore.New(db)
	check(err)
	idem, err := core.New(core.Config{Store: store, Routes: core.Routes{
		"POST /v1/payments": {Recovery: core.Rollback, Roles: []string{"customer"}},
	}})
	check(err)
	v1 := r.Group("/v1", ginidem.JWTGuard(verifier), ginidem.Idempotent(idem))
	v1.POST("/payments", createPayment)
	check(errors.Join(ginidem.Audit(r, idem), gormstore.Audit(ctx, db, &Payment{})))
	background.Go(func() { check(idem.Run(ctx)) }) // sweeps, until ctx ends
	// To here.

	for range 2 {
		w := exampleSend(r, http.MethodPost, "/v1/payments", "customer", "one-key-per-intent", `{"amount":"12.50"}`)
		fmt.Println(w.Code, w.Header().Get("Idempotency-Result"), strings.TrimSpace(w.Body.String()))
	}
	w := exampleSend(r, http.MethodPost, "/v1/payments", "customer", "one-key-per-intent", `{"amount":"99.00"}`)
	fmt.Println(w.Code, strings.Contains(w.Body.String(), `"code":"key_reused"`))

	var rows int64
	check(db.Model(&Payment{}).Count(&rows).Error)
	fmt.Println("rows:", rows)
	check(store.Close())

	// Output:
	// 201 created {"id":1,"amount":"12.50"}
	// 201 reused {"id":1,"amount":"12.50"}
	// 409 true
	// rows: 1
}

// exampleApp returns what every app has: a migrated database and a verifier of tokens.
func exampleApp(ctx context.Context) (db *gorm.DB, verifier *authctx.Verifier, done func()) {
	dir, err := os.MkdirTemp("", "idem")
	check(err)
	db, err = gorm.Open(sqlite.Open("file:"+filepath.Join(dir, "app.db")+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"),
		&gorm.Config{Logger: logger.Discard})
	check(err)
	check(db.AutoMigrate(&Payment{}))
	check(gormstore.Migrate(ctx, db))
	return db, exampleVerifier(), func() {
		pool, err := db.DB()
		check(err)
		check(pool.Close())
		check(os.RemoveAll(dir))
	}
}

var secret = []byte("a secret of thirty-two bytes or so")

func exampleVerifier() *authctx.Verifier {
	verifier, err := authctx.New(authctx.Config{
		Issuer: "https://issuer.example", Audience: []string{"payments"}, Algorithms: []string{"HS256"},
		Keyfunc: func(*jwt.Token) (any, error) { return secret, nil },
	})
	check(err)
	return verifier
}

// exampleSend sends a request of a caller with a role.
func exampleSend(app http.Handler, method, path, role, key, body string) *httptest.ResponseRecorder {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": "https://issuer.example", "aud": "payments", "sub": role + "-1", "roles": []string{role},
		"exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString(secret)
	check(err)
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	return w
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
