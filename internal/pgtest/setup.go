package pgtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// setUp makes the data directory of a new server.
func (s *server) setUp(settings []string) error {
	// A password, because every user of this machine reaches a TCP port, and a superuser may run programs.
	password := rand.Text()
	s.url = &url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword("postgres", password),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
	if err := s.initialise(password); err != nil {
		return err
	}
	if err := s.configure(settings); err != nil {
		return err
	}
	return s.takePort()
}

// takePort gives the server a port that is free at this moment.
func (s *server) takePort() error {
	port, err := FreePort()
	if err == nil {
		s.url.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	return err
}

// initialise runs initdb.
func (s *server) initialise(password string) error {
	passwordFile := s.file("password")
	if err := os.WriteFile(passwordFile, []byte(password), 0o600); err != nil {
		return err
	}
	defer func() { _ = os.Remove(passwordFile) }()
	account, err := serverAccount()
	if err != nil {
		return err
	}
	if err := account.give(s.directory, passwordFile); err != nil {
		return err
	}
	// md5 will do for a password that nobody can guess; SCRAM's 4,096 rounds are most of what a connection costs.
	// --no-sync concerns initdb alone: the server itself keeps fsync on, since the library refuses one without.
	initdb, err := s.command("initdb", "--pgdata="+s.file("data"), "--username=postgres",
		"--pwfile="+passwordFile, "--auth=md5", "--encoding=UTF8", "--locale=C", "--no-sync")
	if err != nil {
		return err
	}
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, output)
	}
	return nil
}

// configure appends to postgresql.conf, where ALTER SYSTEM overrides it, as it would not the command line. Durability
// (fsync, synchronous_commit), wal_level and prepared transactions stay as PostgreSQL has them.
func (s *server) configure(settings []string) error {
	file, err := os.OpenFile(filepath.Join(s.file("data"), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for _, setting := range slices.Concat([]string{
		"listen_addresses=127.0.0.1",
		"unix_socket_directories=" + s.directory,
		"max_connections=300",
		"log_line_prefix=" + linePrefix,
	}, settings) {
		name, value, _ := strings.Cut(setting, "=")
		_, err = fmt.Fprintf(file, "%s = '%s'\n", name, strings.ReplaceAll(value, "'", "''"))
		if err != nil {
			break
		}
	}
	return errors.Join(err, file.Close())
}

// command is one of PostgreSQL's programs, run in the server's directory by the server's account.
func (s *server) command(program string, arguments ...string) (*exec.Cmd, error) {
	account, err := serverAccount()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(s.binaries, program), arguments...)
	cmd.Dir = s.directory
	// PGDATA, PGPORT, PGOPTIONS and the like are meant for other servers. English messages, because they are searched.
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "PG")
	}), "LC_ALL=C")
	account.run(cmd)
	return cmd, nil
}
