// A wallet in layers: handlers call services, services call repositories, and those write into a global db. Nothing knows
// a key: a repeated transfer moves the money twice.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"
)

func main() {
	if err := connect("wallet.db"); err != nil {
		log.Fatal(err)
	}
	r := router()
	address := os.Getenv("ADDR")
	if address == "" {
		address = "127.0.0.1:8080"
	}
	fmt.Println("listening on", address)
	server := &http.Server{Addr: address, Handler: r, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func router() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(gin.Recovery())
	wallets := walletService{walletRepository{}, transferRepository{}}
	h := handlers{wallets}

	r.POST("/login", h.login)
	api := r.Group("/api", auth)
	api.POST("/wallet", h.open)
	api.GET("/wallet", h.wallet)
	api.POST("/transfers", h.transfer)
	return r
}
