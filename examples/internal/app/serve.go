package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/examples/internal/demo"
	"github.com/auth19/idem/examples/internal/web"
)

// Serve prints where it listens, and serves until ctx ends. Then it waits for the running requests. The idempotency
// module's background work runs beside it.
func (a *App) Serve(ctx context.Context, handler http.Handler) error {
	listener, err := net.Listen("tcp", a.Settings.Addr)
	if err != nil {
		return fmt.Errorf("ADDR: %w. Name another address, such as ADDR=127.0.0.1:8081; with port 0 the system picks one", err)
	}
	tokens, err := a.Settings.tokens(time.Now())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if os.Getenv(demo.Reborn) == "" {
		fmt.Print(banner(a.Settings, baseURL(listener.Addr()), tokens, a.newTrial()))
	}

	server := newServer(web.CORS(a.Settings.Origin, a.withFaults(listener.Addr(), handler)))
	// Not ctx itself: the app still answers requests after ctx has ended.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	var runErr error
	running.Go(func() { runErr = a.Idem.Run(background) })

	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = a.shutdown(server)
	}
	stop()
	running.Wait()
	return errors.Join(err, runErr)
}

// newTrial makes a new key for the printed lines, and asks the module which operation the first token's customer will
// have under it.
func (a *App) newTrial() trial {
	key := intents.NewKey()
	return trial{
		key:       key,
		operation: core.Scoping{}.RecordID(authctx.Principal{Issuer: issuer, Subject: callers[0].name}, key),
		signIn:    a.signInLink,
	}
}

// newServer limits how long a client may take to send its request. Until the body has arrived, a request holds only memory
// and a socket. There is no WriteTimeout, because it would cut answers to commands that were carried out. The attempt's
// deadline limits the handler.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
	}
}

// shutdown waits for the running requests, which end at their deadline at the latest. Only an erasure may take longer: it is
// cut, and its repeat continues it.
func (a *App) shutdown(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), a.Settings.Deadline+15*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}

// baseURL returns the address for a browser. For "all addresses" it returns 127.0.0.1.
func baseURL(address net.Addr) string {
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return "http://" + address.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
