package httpidem_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/gormstore"
)

// Payment is a money row. Once is its second line: a UNIQUE operation.
type Payment struct {
	gormstore.Once `json:"-"`

	ID     uint   `json:"id"`
	Amount string `json:"amount"`
}

// createPayment is a handler on a Rollback route: what it writes through Tx commits with its answer, or not at all.
func createPayment(w http.ResponseWriter, r *http.Request) {
	var p Payment
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		http.Error(w, "no payment", http.StatusBadRequest)
		return
	}
	switch _, err := gormstore.CreateOnce(gormstore.Tx(r.Context()), &p); {
	case errors.Is(err, gormstore.ErrOtherOperation):
		http.Error(w, "another payment", http.StatusConflict)
	case err != nil:
		http.Error(w, "not booked", http.StatusInternalServerError) // rolled back: the key is free
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(p)
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

	// Ten lines, from here.
	store, err := gormstore.New(db)
	check(err)
	idem, err := core.New(core.Config{Store: store, Routes: core.Routes{
		"POST /v1/payments": {Recovery: core.Rollback, Roles: []string{"customer"}},
	}})
	check(err)
	mux := httpidem.NewRouter() // in place of http.NewServeMux()
	v1 := mux.Group("/v1", httpidem.JWTGuard(verifier), httpidem.Idempotent(idem))
	v1.HandleFunc("POST /payments", createPayment)
	check(errors.Join(httpidem.Audit(mux, idem), gormstore.Audit(ctx, db, &Payment{})))
	background.Go(func() { check(idem.Run(ctx)) }) // sweeps, until ctx ends
	// To here.

	for range 2 {
		w := exampleSend(mux, "customer", "one-key-per-intent", `{"amount":"12.50"}`)
		fmt.Println(w.Code, w.Header().Get("Idempotency-Result"), strings.TrimSpace(w.Body.String()))
	}
	w := exampleSend(mux, "customer", "one-key-per-intent", `{"amount":"99.00"}`)
	fmt.Println(w.Code, strings.Contains(w.Body.String(), `"code":"key_reused"`))
	check(store.Close())
	// Output:
	// 201 created {"id":1,"amount":"12.50"}
	// 201 reused {"id":1,"amount":"12.50"}
	// 409 true
}

// exampleApp returns what an app has already: a database with its tables, and a verifier of its tokens.
func exampleApp(ctx context.Context) (*gorm.DB, *authctx.Verifier, func()) {
	folder, err := os.MkdirTemp("", "idem-example-")
	check(err)
	db, err := gorm.Open(sqlite.Open("file:"+filepath.Join(folder, "app.db")+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"),
		&gorm.Config{Logger: logger.Discard})
	check(err)
	check(db.AutoMigrate(&Payment{}))
	check(gormstore.Migrate(ctx, db))
	verifier, err := authctx.New(authctx.Config{
		Issuer: "https://issuer.example", Audience: []string{"payments"}, Algorithms: []string{"HS256"},
		Keyfunc: func(*jwt.Token) (any, error) { return exampleSecret, nil },
	})
	check(err)
	return db, verifier, func() {
		pool, err := db.DB()
		check(err)
		check(pool.Close())
		check(os.RemoveAll(folder))
	}
}

var exampleSecret = []byte("a secret of thirty-two bytes or so")

// exampleSend sends a command with a key, as somebody who has the role.
func exampleSend(app http.Handler, role, key, body string) *httptest.ResponseRecorder {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": "https://issuer.example", "aud": "payments", "sub": "customer-1", "roles": []string{role},
		"exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString(exampleSecret)
	check(err)
	r := httptest.NewRequest(http.MethodPost, "/v1/payments", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	return w
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}
