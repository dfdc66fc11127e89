package pgtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// supervisorVariable turns a test binary into a supervisor.
	supervisorVariable = "IDEM_PGTEST_SUPERVISOR"
	// readyWithin is how long a server may take to accept connections, crash recovery included.
	readyWithin = time.Minute
	// stopWithin is how long a server may take to stop at once.
	stopWithin = 10 * time.Second
	// linger is how long an unused server waits for the next test binary, which may still be in the linker.
	linger = 5 * time.Second
	// portTaken is what a server logs that ends because another process has its port.
	portTaken = "could not create any TCP/IP sockets"
)

// A supervisor is the test binary that started the server, run once more: it is there, wherever the tests run, and
// needs no shell. It must act before the binary's main function, which belongs to the testing package.
func init() {
	if os.Getenv(supervisorVariable) == "" {
		return
	}
	report := inherited(3, "report")
	if err := supervise(os.Args[1], os.Args[2], os.Args[3:], report); err != nil {
		_, _ = fmt.Fprint(report, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// supervise runs a server, which it sets up first if it is new, until the postmaster ends by itself or by a signal, or
// until nobody uses the server any more. The postmaster's process id goes to report, which is then closed, as soon as
// connections are accepted.
func supervise(binaries, directory string, settings []string, report *os.File) error {
	users, err := os.Open(filepath.Join(directory, usersLock))
	if err != nil {
		return err
	}
	s := &server{directory: directory, binaries: binaries, users: users}
	defer s.removeUnlessUsed()
	self, err := os.Create(s.file(supervisorLock))
	if err != nil {
		return err
	}
	defer func() { _ = self.Close() }()
	if err := lockExclusive(self); err != nil {
		return err
	}
	postmaster, ended, err := s.run(settings)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprint(report, postmaster.Pid) // fails if the process that asked is gone: others may have joined
	_ = report.Close()

	unused := make(chan error, 1)
	go func() { unused <- awaitUnused(users) }()
	select {
	case <-ended: // stopped, killed or crashed: what comes next is up to the users
		return nil
	case <-unused:
	}
	// A process that wants to join waits for the lock that is held from here on. Then it must find no server, and so
	// the URL goes first: the lock's file may be deleted before it.
	_ = os.Remove(s.file(urlFile))
	_ = send(postmaster.Pid, Immediate)
	select {
	case <-ended:
	case <-time.After(stopWithin):
		_ = postmaster.Kill()
	}
	return nil
}

// run sets up the server if it is new, starts it, and returns when connections are accepted. The channel tells when the
// postmaster has ended.
func (s *server) run(settings []string) (_ *os.Process, ended <-chan error, err error) {
	s.url, err = readURL(s.directory)
	if errors.Is(err, fs.ErrNotExist) {
		err = s.setUp(settings)
	}
	if err != nil {
		return nil, nil, err
	}
	first := s.log() == ""
	for tries := 1; ; tries++ {
		postmaster, ended, err := s.startPostmaster()
		if err == nil {
			return postmaster, ended, nil
		}
		// Somebody took the port after it was chosen. Nobody knows it before the first start: another one will do.
		if !first || tries == 5 || !strings.Contains(s.log(), portTaken) {
			return nil, nil, err
		}
		if err := s.takePort(); err != nil {
			return nil, nil, err
		}
	}
}

// removeUnlessUsed removes the server when the last process that used it is gone.
func (s *server) removeUnlessUsed() {
	if tryLockExclusive(s.users) {
		_ = s.remove()
		removeRoot()
	}
}

// startPostmaster starts the postmaster and returns when it accepts connections. Its log is a plain file that every
// server process writes itself: what a statement logs is there before the statement's answer, so that readers of the
// log need not wait.
func (s *server) startPostmaster() (_ *os.Process, ended <-chan error, err error) {
	postmaster, err := s.command("postgres", "-D", s.file("data"), "-p", s.url.Port())
	if err != nil {
		return nil, nil, err
	}
	log, err := os.OpenFile(s.file(logFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = log.Close() }()
	postmaster.Stdout, postmaster.Stderr = log, log
	detach(postmaster)
	endWithParent(postmaster)
	if err := postmaster.Start(); err != nil {
		return nil, nil, err
	}
	end := make(chan error, 1)
	go func() { end <- postmaster.Wait() }()
	err = s.awaitReady(postmaster.Process.Pid, end)
	if err == nil {
		err = writeURL(s.directory, s.url) // from here on others may join
	}
	if err != nil {
		_ = postmaster.Process.Kill()
		return nil, nil, err
	}
	return postmaster.Process, end, nil
}

// awaitReady returns when the postmaster accepts connections.
func (s *server) awaitReady(postmaster int, ended <-chan error) error {
	deadline := time.After(readyWithin)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("the postmaster ended: %w", err)
		case <-deadline:
			return fmt.Errorf("the postmaster accepts no connections after %s", readyWithin)
		case <-tick.C:
			if s.isReady(postmaster) {
				return nil
			}
		}
	}
}

// isReady reads the postmaster's own lock file: its first line is the process id (a killed server leaves its file
// behind), the eighth the status.
func (s *server) isReady(postmaster int) bool {
	text, err := os.ReadFile(filepath.Join(s.file("data"), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	return len(lines) > 7 && lines[0] == strconv.Itoa(postmaster) && strings.TrimSpace(lines[7]) == "ready"
}

// awaitUnused returns when no process has used the server for a while. It then holds the users lock.
func awaitUnused(users *os.File) error {
	for {
		if err := lockExclusive(users); err != nil {
			return err
		}
		if err := unlock(users); err != nil {
			return err
		}
		time.Sleep(linger)
		if tryLockExclusive(users) {
			return nil
		}
	}
}
