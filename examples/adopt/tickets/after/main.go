// The same shop. An order needs a key, and a repeat of it orders nothing.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/golang-jwt/jwt/v5"
	echojwt "github.com/labstack/echo-jwt/v4"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
)

const issuer = "https://id.example"

var secret = []byte("a development secret, of 32 bytes or more")

func main() {
	db, err := open("tickets.db")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	idem, err := newIdem(ctx, db)
	if err != nil {
		log.Fatal(err)
	}
	e := router(db, idem)
	if err := audit(ctx, e, idem, db); err != nil {
		log.Fatal(err)
	}
	go func() { log.Print(idem.Run(ctx)) }() // sweeps
	token, err := newToken("customer-1")
	if err != nil {
		log.Fatal(err)
	}
	address := os.Getenv("ADDR")
	if address == "" {
		address = "127.0.0.1:8080"
	}
	fmt.Printf("listening on %s; a token:\n%s\n", address, token)
	server := &http.Server{Addr: address, Handler: e, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func router(db *gorm.DB, idem *core.Module) *echo.Echo {
	e := echo.New()
	echoidem.TrackRoutes(e) // for the audit, before the first route
	e.Use(middleware.Recover())
	e.GET("/readyz", echo.WrapHandler(core.Readiness{Module: idem}))
	h := handlers{db}
	v1 := e.Group("/v1", echojwt.WithConfig(echojwt.Config{SigningKey: secret}))
	v1.GET("/shows/:id", h.show)
	v1.PUT("/shows/:id/like", h.like)
	v1.POST("/orders", h.order, echoidem.Bridge(caller, observer), echoidem.Idempotent(idem))
	v1.GET("/orders", h.orders)
	return e
}

// newToken stands for the server that makes the tokens.
func newToken(subject string) (string, error) {
	return jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": issuer, "sub": subject, "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString(secret)
}
