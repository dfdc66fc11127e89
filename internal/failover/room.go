//go:build linux

package main

import (
	"embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"text/template"
)

//go:embed *.yml *.ini
var templates embed.FS

// room is the temporary directory of a run, what runs in it, and the account that its servers run under.
type room struct {
	directory string
	account   *syscall.Credential // nil: the user who runs the program

	mu    sync.Mutex
	ports []int               // that were given out
	alive map[*process]func() // the way to end each process
}

// newRoom makes the directory. Where root runs the program, it belongs to an unprivileged user: PostgreSQL does not run
// as root.
func newRoom() (*room, error) {
	account, err := unprivileged()
	if err != nil {
		return nil, err
	}
	directory, err := os.MkdirTemp("", "idem-failover-")
	if err != nil {
		return nil, err
	}
	r := &room{directory: directory, account: account, alive: map[*process]func(){}}
	return r, r.give(directory)
}

func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	found, err := user.Lookup("postgres") // Debian's package makes it
	if err != nil {
		found, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: make a user postgres, or be another user: %w", err)
	}
	uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(uidErr, gidErr)
}

// give hands a file over to the account.
func (r *room) give(path string) error {
	if r.account == nil {
		return nil
	}
	return os.Chown(path, int(r.account.Uid), int(r.account.Gid))
}

// path is a file of the room.
func (r *room) path(name string) string { return filepath.Join(r.directory, name) }

// port finds a free port below the range from which systems take ports for outgoing connections: there one could be
// taken while its server is down.
func (r *room) port() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	for range 100 {
		port := 15000 + rand.IntN(15000)
		if slices.Contains(r.ports, port) {
			continue
		}
		var listener net.Listener
		if listener, err = net.Listen("tcp", local(port)); err == nil {
			r.ports = append(r.ports, port)
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("no free port: %w", err)
}

// local is the address of a port of this machine.
func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// write makes a file of the room from a template.
func (r *room) write(name, from string, data any) (path string, err error) {
	text, err := template.ParseFS(templates, from)
	if err != nil {
		return "", err
	}
	file, err := os.OpenFile(r.path(name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600) // there are passwords in it
	if err != nil {
		return "", err
	}
	return file.Name(), errors.Join(text.Execute(file, data), file.Close(), r.give(file.Name()))
}
