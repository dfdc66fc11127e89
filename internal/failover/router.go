//go:build linux

package main

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/auth19/idem/internal/cutproxy"
)

// router carries connections to the present primary. It asks the nodes, as HAProxy does in front of Patroni. PgBouncer
// needs one, because it does not look for the primary itself.
type router struct {
	*cutproxy.Proxy
	stop context.CancelFunc
	done sync.WaitGroup
}

func startRouter(c *cluster, primary *node) (*router, error) {
	proxy, err := cutproxy.New(primary.Postgres, nil)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &router{Proxy: proxy, stop: stop}
	r.done.Go(func() { r.follow(ctx, c, primary) })
	return r, nil
}

// follow looks for the primary until ctx ends. Connections to a former primary are cut.
func (r *router) follow(ctx context.Context, c *cluster, primary *node) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for ; ctx.Err() == nil; <-ticker.C {
		if now := c.primary(ctx); now != nil && now != primary {
			primary = now
			r.SetTarget(primary.Postgres)
			r.CutAll()
		}
	}
}

func (r *router) close() {
	r.stop()
	r.done.Wait()
	r.Close()
}

// startPgBouncer starts PgBouncer between the apps and the router, and returns its address.
func startPgBouncer(r *room, program, password string, to *router) (address string, err error) {
	port, err := r.port()
	if err != nil {
		return "", err
	}
	_, router, err := net.SplitHostPort(to.Addr())
	if err != nil {
		return "", err
	}
	users, err := r.write("users.txt", "pgbouncer_users.ini", password)
	if err != nil {
		return "", err
	}
	configuration, err := r.write("pgbouncer.ini", "pgbouncer.ini", map[string]any{
		"Port": port, "Router": router, "Users": users,
	})
	if err != nil {
		return "", err
	}
	_, err = r.start("pgbouncer", program, configuration)
	return local(port), err
}
