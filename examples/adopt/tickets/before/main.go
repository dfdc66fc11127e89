// A shop for tickets on Echo, with echo-jwt and tokens of another server. Its writes have the request's context, and the
// order is booked in a transaction. But nothing knows a key: a repeated order is a second order.
package main

import (
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
)

const issuer = "https://id.example"

var secret = []byte("a development secret, of 32 bytes or more")

func main() {
	db, err := open("tickets.db")
	if err != nil {
		log.Fatal(err)
	}
	e := router(db)
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

func router(db *gorm.DB) *echo.Echo {
	e := echo.New()
	e.Use(middleware.Recover())
	h := handlers{db}
	v1 := e.Group("/v1", echojwt.WithConfig(echojwt.Config{SigningKey: secret}))
	v1.GET("/shows/:id", h.show)
	v1.PUT("/shows/:id/like", h.like)
	v1.POST("/orders", h.order)
	v1.GET("/orders", h.orders)
	return e
}

// newToken stands for the server that makes the tokens.
func newToken(subject string) (string, error) {
	return jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": issuer, "sub": subject, "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString(secret)
}
