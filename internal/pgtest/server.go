package pgtest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

const (
	logFile = "log" // all that the server writes
	urlFile = "url" // written when the server has started: from then on others may join
)

// server is one PostgreSQL server that this process uses: its directory, and the postmaster if one is running.
type server struct {
	directory string   // data/, the log, the Unix socket and the lock files
	url       *url.URL // superuser, database postgres; nil before the first start
	users     *os.File // this process's share in the users lock: the server lives at least as long

	// Set by start, so only in the process that started the server:
	binaries   string
	supervisor *exec.Cmd // nil while the server is stopped
	postmaster int       // process id
}

// newServer makes an empty directory for a server below root, whose lock the caller holds.
func newServer(root, prefix, binaries string) (*server, error) {
	directory, err := os.MkdirTemp(root, prefix)
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	s := &server{directory: directory, binaries: binaries}
	s.users, err = os.Create(s.file(usersLock))
	if err == nil {
		err = lockShared(s.users)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: %w", err), s.remove())
	}
	return s, nil
}

// launch starts a new server. After an error the server is removed.
func (s *server) launch(settings []string) error {
	if err := s.start(settings...); err != nil {
		return errors.Join(fmt.Errorf("pgtest: %w", err), s.stop(Immediate), s.remove())
	}
	return nil
}

// start runs the server under a supervisor, which sets it up first if it is new, and returns when connections are
// accepted. Settings are those of postgresql.conf, "name=value", and count for a new server only.
func (s *server) start(settings ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }()
	supervisor := exec.Command(self)
	supervisor.Args = slices.Concat([]string{"pgtest-supervisor", s.binaries, s.directory}, settings)
	supervisor.Env = append(os.Environ(), supervisorVariable+"=1", "GORACE=atexit_sleep_ms=0")
	supervisor.Dir = s.directory
	supervisor.ExtraFiles = []*os.File{writer}
	detach(supervisor)
	logged := len(s.log())
	err = supervisor.Start()
	_ = writer.Close()
	if err != nil {
		return err
	}
	report, err := io.ReadAll(reader) // ends when the supervisor has reported, or is gone
	if err == nil {
		s.postmaster, err = strconv.Atoi(string(report))
	}
	if err != nil {
		_ = supervisor.Wait()
		return fmt.Errorf("the server does not start: %s\n%s", report, s.log()[logged:])
	}
	s.supervisor = supervisor
	s.url, err = readURL(s.directory)
	return err
}

// stop ends the server in the given mode and waits until it is gone. A server that is not running is left alone.
func (s *server) stop(mode Mode) error {
	if s.supervisor == nil {
		return nil
	}
	if err := send(s.postmaster, mode); err != nil {
		return fmt.Errorf("stop %s: %w", mode, err)
	}
	_ = s.supervisor.Wait() // it ends with the postmaster
	s.supervisor = nil
	return nil
}

// remove deletes a server that is not running.
func (s *server) remove() error {
	err := os.RemoveAll(s.directory)
	if s.users != nil {
		err = errors.Join(err, s.users.Close())
	}
	return err
}

// log is the whole text of the server's log.
func (s *server) log() string {
	text, err := os.ReadFile(s.file(logFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err.Error()
	}
	return string(text)
}

// file is the path of a file in the server's directory.
func (s *server) file(name string) string { return filepath.Join(s.directory, name) }

// readURL is the URL of the server in a directory; the error is [fs.ErrNotExist] before its first start.
func readURL(directory string) (*url.URL, error) {
	text, err := os.ReadFile(filepath.Join(directory, urlFile))
	if err != nil {
		return nil, err
	}
	return url.Parse(string(text))
}

func writeURL(directory string, server *url.URL) error {
	return os.WriteFile(filepath.Join(directory, urlFile), []byte(server.String()), 0o600)
}
