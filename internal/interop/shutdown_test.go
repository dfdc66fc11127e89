package interop_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

// serve serves until ctx ends, and then ends in the order of docs/mounting.md.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, idem *core.Module, store *gormstore.Store) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var running sync.WaitGroup
	var runErr, serveErr error
	running.Go(func() { runErr = idem.Run(background) })
	running.Go(func() { serveErr = server.Serve(listener) })

	<-ctx.Done() // SIGTERM: the load balancer sends no new requests
	// Policy.Deadline, and some more
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 75*time.Second)
	defer cancel()
	err := server.Shutdown(grace) // running requests are answered, at their deadline at the latest
	stop()                        // then Run ends
	running.Wait()
	if errors.Is(serveErr, http.ErrServerClosed) {
		serveErr = nil
	}
	return errors.Join(err, runErr, serveErr, store.Close()) // then the store; after it, close the pool
}

// A request that is running when the app is told to end is answered, and recorded.
//
// CONTRACT R-5, T-3
func TestShutdown(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	db := openPostgres(t)
	require.NoError(t, db.AutoMigrate(&charge{}))
	store, err := gormstore.New(db)
	require.NoError(t, err)
	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Rollback}})
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	find := func(*gin.Context) (authctx.Principal, error) { return authctx.User(shop, 17) }
	r := gin.New()
	r.POST("/v1/payouts", ginidem.Bridge(find), ginidem.Idempotent(idem), func(c *gin.Context) {
		end()
		if err := gormstore.Tx(c.Request.Context()).Create(&charge{ID: rand.Text()}).Error; err != nil {
			c.AbortWithStatus(http.StatusInternalServerError)
			return
		}
		c.Status(http.StatusCreated)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, listener, r, idem, store) }()

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+listener.Addr().String()+"/v1/payouts",
		strings.NewReader(`{}`))
	require.NoError(t, err)
	request.Header.Set("Idempotency-Key", "key-1")
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusCreated, answer.StatusCode)
	http.DefaultClient.CloseIdleConnections()
	require.NoError(t, <-ended)
	var rows int64
	require.NoError(t, db.Model(&charge{}).Count(&rows).Error)
	require.EqualValues(t, 1, rows)
}
