//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// node is one of the servers of the cluster: a Patroni with its PostgreSQL.
type node struct {
	Name, Directory, Data, Binaries string
	REST, Postgres, Etcd            string // addresses
	Password                        string
	Sync                            bool

	room          *room
	patroni       string // the program
	configuration string
	process       *process // nil: it is down
}

// start starts Patroni, which starts PostgreSQL. The cluster decides whether it is a primary or a standby.
func (n *node) start() (err error) {
	if n.process, err = n.room.start(n.Name, n.patroni, n.configuration); err != nil {
		return err
	}
	p := n.process
	n.room.endWith(p, func() {
		if n.process == p {
			_ = n.kill() // the run is over
		}
	})
	return nil
}

// kill ends Patroni and all of PostgreSQL by SIGKILL, and returns when they are gone: the machine loses power.
func (n *node) kill() error {
	if n.process == nil {
		return nil
	}
	pids, err := n.servers()
	n.process.kill() // first, so that Patroni does not react to the end of PostgreSQL
	n.process = nil
	if err != nil {
		return err // there is no PostgreSQL
	}
	if err := sendSignal(syscall.SIGKILL, pids...); err != nil {
		return err
	}
	return awaitEnd(pids...)
}

// stopReplication stops only the processes that send the log to the standbys. From then on the standbys fall behind.
func (n *node) stopReplication() error {
	pids, err := n.servers()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if strings.Contains(title(pid), "walsender") {
			err = sendSignal(syscall.SIGSTOP, pid)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// servers returns the processes of PostgreSQL, the postmaster first.
func (n *node) servers() ([]int, error) {
	text, err := os.ReadFile(filepath.Join(n.Data, "postmaster.pid"))
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(first)
	if err != nil {
		return nil, fmt.Errorf("postmaster.pid: %w", err)
	}
	if !strings.Contains(title(postmaster), n.Data) {
		return nil, fmt.Errorf("%s has no postmaster", n.Name) // the number of another process by now
	}
	children, err := childrenOf(postmaster)
	return append([]int{postmaster}, children...), err
}

// restClient asks Patroni. A node that is down does not keep anybody waiting.
var restClient = &http.Client{Timeout: 2 * time.Second}

// isPrimary asks the node what load balancers ask it: whether it is the primary, and holds the cluster's lock.
func (n *node) isPrimary(ctx context.Context) bool {
	status, err := n.ask(ctx, "/primary", nil)
	return err == nil && status == http.StatusOK
}

// ask reads what Patroni answers into v, unless that is nil.
func (n *node) ask(ctx context.Context, path string, v any) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.REST+path, nil)
	if err != nil {
		return 0, err
	}
	response, err := restClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if v != nil {
		err = json.NewDecoder(response.Body).Decode(v)
	}
	return response.StatusCode, err
}
