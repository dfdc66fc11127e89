// The README's quick start: a whole app with one money route, on Gin and PostgreSQL.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	db, err := gorm.Open(postgres.Open(os.Getenv("DATABASE_URL")), &gorm.Config{})
	check(err)
	check(errors.Join(db.AutoMigrate(&Payment{}), gormstore.Migrate(ctx, db)))
	verifier, err := authctx.New(authctx.Config{
		Issuer: "https://issuer.example", Audience: []string{"payments"}, Algorithms: []string{"HS256"},
		Keyfunc: func(*jwt.Token) (any, error) { return []byte(os.Getenv("JWT_SECRET")), nil },
	})
	check(err)
	r := gin.Default()
	var background sync.WaitGroup

	// The layer, from here.
	observer := core.LogObserver(slog.Default()) // says why a request gets 401 or 503
	store, err := gormstore.New(db)
	check(err)
	idem, err := core.New(core.Config{Store: store, Observer: observer, Routes: core.Routes{
		"POST /v1/payments": {Recovery: core.Rollback, Roles: []string{"customer"}},
	}})
	check(err)
	v1 := r.Group("/v1", ginidem.JWTGuard(verifier, observer), ginidem.Idempotent(idem))
	v1.POST("/payments", createPayment)
	check(errors.Join(ginidem.Audit(r, idem), gormstore.Audit(ctx, db, &Payment{})))
	background.Go(func() { check(idem.Run(ctx)) }) // sweeps, until ctx ends
	// To here.

	listener, err := net.Listen("tcp", os.Getenv("ADDR"))
	check(err)
	fmt.Println("listening on http://" + listener.Addr().String())
	server := &http.Server{Handler: r, ReadTimeout: 10 * time.Second}
	background.Go(func() {
		<-ctx.Done()
		stop() // a second signal ends the process at once
		check(server.Shutdown(context.Background()))
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		check(err)
	}
	background.Wait()
	check(store.Close())
}

// createPayment is one attempt: what it writes through Tx commits with its answer, or not at all.
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

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
