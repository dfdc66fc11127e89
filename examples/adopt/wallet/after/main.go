// The same wallet. A transfer needs a key, and a repeat of it moves nothing.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
)

func main() {
	if err := connect("wallet.db"); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	idem, err := newIdem(ctx)
	if err != nil {
		log.Fatal(err)
	}
	r := router(idem)
	if err := audit(ctx, r, idem); err != nil {
		log.Fatal(err)
	}
	go func() { log.Print(idem.Run(ctx)) }() // sweeps
	address := os.Getenv("ADDR")
	if address == "" {
		address = "127.0.0.1:8080"
	}
	fmt.Println("listening on", address)
	server := &http.Server{Addr: address, Handler: r, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func router(idem *core.Module) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(gin.Recovery())
	wallets := walletService{walletRepository{}, transferRepository{}}
	h := handlers{wallets}

	r.POST("/login", h.login)
	r.GET("/readyz", gin.WrapH(core.Readiness{Module: idem}))
	api := r.Group("/api", auth)
	api.POST("/wallet", h.open)
	api.GET("/wallet", h.wallet)
	money := api.Group("", ginidem.Bridge(caller, observer), ginidem.Idempotent(idem))
	money.POST("/transfers", h.transfer)
	return r
}
