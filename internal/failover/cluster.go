//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience bounds every wait for a state of the cluster. A failover takes longer than the 20 s for which the dead primary
// stays leader.
const patience = 3 * time.Minute

// cluster is three nodes, and etcd, where they agree on who is the primary.
type cluster struct {
	nodes    []*node
	sync     bool
	password string // of the database's users
}

// startCluster starts all of it, with an empty database for the apps.
func startCluster(ctx context.Context, r *room, p programs, sync bool) (*cluster, error) {
	etcd, err := startEtcd(r, p.etcd)
	if err != nil {
		return nil, err
	}
	c := &cluster{sync: sync, password: rand.Text()} // every user of this machine reaches the ports
	for i := range 3 {
		n := &node{
			Name: fmt.Sprint("node", i+1), Directory: r.directory, Binaries: p.postgres, Etcd: etcd, Password: c.password,
			Sync: sync, room: r, patroni: p.patroni,
		}
		n.Data = r.path(n.Name)
		for _, address := range []*string{&n.REST, &n.Postgres} {
			port, err := r.port()
			if err != nil {
				return nil, err
			}
			*address = local(port)
		}
		if n.configuration, err = r.write(n.Name+".yml", "patroni.yml", n); err != nil {
			return nil, err
		}
		if err := n.start(); err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, n)
	}
	primary, err := c.awaitHealth(ctx)
	if err != nil {
		return nil, err
	}
	return c, c.createDatabase(ctx, primary)
}

// startEtcd starts etcd, and returns its address. The intervals are for a disk that others use, too.
func startEtcd(r *room, program string) (address string, err error) {
	client, err := r.port()
	if err != nil {
		return "", err
	}
	peer, err := r.port()
	if err != nil {
		return "", err
	}
	clients, peers := "http://"+local(client), "http://"+local(peer)
	_, err = r.start("etcd", program, "--name=etcd", "--data-dir="+r.path("etcd"), "--heartbeat-interval=500",
		"--election-timeout=5000", "--listen-client-urls="+clients, "--advertise-client-urls="+clients,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=etcd="+peers)
	return local(client), err
}

// createDatabase makes the apps' database, and a role for them without privileges of its own.
func (c *cluster) createDatabase(ctx context.Context, primary *node) error {
	conn, err := pgx.Connect(ctx, c.url("postgres", "postgres", primary.Postgres))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "CREATE ROLE app LOGIN PASSWORD '"+c.password+"'"); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE shop OWNER app")
	return err
}

// url returns the address of a database at one or several hosts. The driver takes the host that can write.
func (c *cluster) url(user, database string, hosts ...string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(user, c.password), Host: strings.Join(hosts, ","), Path: "/" + database,
		RawQuery: "sslmode=disable&connect_timeout=3",
	}
	if len(hosts) > 1 {
		u.RawQuery += "&target_session_attrs=read-write"
	}
	return u.String()
}

// addresses are those of all PostgreSQL servers.
func (c *cluster) addresses() (all []string) {
	for _, n := range c.nodes {
		all = append(all, n.Postgres)
	}
	return all
}

// primary returns the node that is the primary; nil where none is, as during a failover.
func (c *cluster) primary(ctx context.Context) *node {
	for _, n := range c.nodes {
		if n.isPrimary(ctx) {
			return n
		}
	}
	return nil
}

// member is what Patroni tells of a node.
type member struct {
	Name, Role, State string
	Timeline          int
}

// awaitHealth waits until there is a primary with two standbys that follow it, one of them synchronous where that is
// asked for. It returns the primary.
func (c *cluster) awaitHealth(ctx context.Context) (primary *node, err error) {
	err = await(ctx, "the cluster is whole", func() bool {
		var view struct{ Members []member }
		if primary = c.primary(ctx); primary == nil {
			return false
		}
		_, err := primary.ask(ctx, "/cluster", &view)
		return err == nil && whole(view.Members, len(c.nodes), c.sync)
	})
	return primary, err
}

// whole reports whether all nodes are there and in step.
func whole(members []member, nodes int, sync bool) bool {
	synchronous := 0
	for _, m := range members {
		if m.State != "running" && m.State != "streaming" || m.Timeline != members[0].Timeline {
			return false
		}
		if m.Role == "sync_standby" {
			synchronous++
		}
	}
	return len(members) == nodes && (!sync || synchronous > 0)
}

// awaitOther waits until another node is the primary, and returns it.
func (c *cluster) awaitOther(ctx context.Context, old *node) (primary *node, err error) {
	err = await(ctx, "another node is the primary", func() bool {
		primary = c.primary(ctx)
		return primary != nil && primary != old
	})
	return primary, err
}

// await waits until is returns true.
func await(ctx context.Context, what string, is func() bool) error {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	enough := time.After(patience)
	for !is() {
		select {
		case <-ticker.C:
		case <-enough:
			return fmt.Errorf("after %v it is still not so that %s", patience, what)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
