package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core/idemclient"
)

// Serve tells where it listens, and serves until ctx ends; then it lets the requests in flight end. Beside it runs
// what the idempotency module has to do besides requests.
func (a *App) Serve(ctx context.Context, handler http.Handler) error {
	listener, err := net.Listen("tcp", a.Settings.Addr)
	if err != nil {
		return err
	}
	tokens, err := a.Settings.tokens(time.Now())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	fmt.Print(banner(a.Settings, baseURL(listener.Addr()), tokens, a.newTrial()))

	server := newServer(handler)
	// Not ctx itself: requests are still answered after it has ended.
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
	key := idemclient.NewKey()
	return trial{key: key, operation: a.Idem.RecordID(authctx.Principal{Issuer: issuer, Subject: callers[0].name}, key)}
}

// newServer bounds how long a client may take to send its request: until its body is there it holds nothing but memory
// and a socket. The handler is bounded by the attempt's deadline, so that there is no WriteTimeout: it would cut answers
// to commands that were carried out.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
	}
}

// shutdown waits for the requests in flight, which end with their deadline at the latest.
func (a *App) shutdown(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), a.Settings.Deadline+15*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}

// baseURL is the address to type into a browser: one that listens everywhere listens here too.
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
