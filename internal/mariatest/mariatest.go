// Package mariatest gives tests a real MariaDB without any preparation: it starts the machine's mariadbd for the test
// binary.
//
//	address := mariatest.Address(t) // a fresh database, as go-sql-driver's DSN
//
// TEST_MYSQL_URL names a server that runs already, as "mysql://user:password@host:port". The user may create databases.
// It may be a server on which the library has not been tried.
package mariatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// urlVariable names a server that runs already.
const urlVariable = "TEST_MYSQL_URL"

// readyWithin is how long a server may take to accept connections.
const readyWithin = time.Minute

// runWithin is how long a DROP may wait for a transaction whose client is gone: the server's idle-transaction-timeout, and a
// wait for a lock before it.
const runWithin = 4 * time.Minute

// ErrNotInstalled says that there is no mariadbd.
var ErrNotInstalled = errors.New("mariatest: no mariadbd found: apt-get install --no-install-recommends mariadb-server " +
	"(it need not be running), or name a server in " + urlVariable)

// server is that of this test binary.
var server = sync.OnceValues(start)

// databases are counted for their names.
var databases atomic.Int64

// Address returns the DSN of an empty database that this test has for itself. Without MariaDB the test is skipped.
func Address(t testing.TB) string {
	t.Helper()
	of, err := server()
	return databaseOf(t, of, err)
}

// URL is Address as the example apps take it: mysql://user:password@host:port/database.
func URL(t testing.TB) string {
	t.Helper()
	return "mysql://" + strings.Replace(strings.Replace(Address(t), "@tcp(", "@", 1), ")/", "/", 1)
}

// AddressWith is Address on a server of its own, which is started with these options.
func AddressWith(t testing.TB, options ...string) string {
	t.Helper()
	of, err := startOwn(options...)
	return databaseOf(t, of, err)
}

// Given reports that TEST_MYSQL_URL names the server.
func Given() bool { return os.Getenv(urlVariable) != "" }

func databaseOf(t testing.TB, of string, err error) string {
	t.Helper()
	if errors.Is(err, ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("idem_%d_%d", os.Getpid(), databases.Add(1))
	run(t, of, "CREATE DATABASE "+name)
	t.Cleanup(func() { run(t, of, "DROP DATABASE "+name) })
	return of + name
}

// run sends a statement with the client of the machine.
func run(t testing.TB, address, statement string) {
	t.Helper()
	parts := dsn.FindStringSubmatch(address)
	if parts == nil {
		t.Fatalf("mariatest: %s is no mysql://user:password@host:port", urlVariable)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), runWithin)
	defer cancel()
	client := exec.CommandContext(ctx, "mariadb", "--no-defaults", "--protocol=tcp", "-u"+parts[1], "-h"+parts[3],
		"-P"+parts[4], "-e", statement)
	client.Env = append(os.Environ(), "MYSQL_PWD="+parts[2])
	if output, err := client.CombinedOutput(); err != nil {
		t.Errorf("mariatest: %s: %v: %s", statement, err, output)
	}
}

var dsn = regexp.MustCompile(`^([^:]*):([^@]*)@tcp\(([^:)]+):(\d+)\)/$`)

// start returns the DSN of the server that is named, or of a new one, without a database.
func start() (string, error) {
	named := os.Getenv(urlVariable)
	if named == "" {
		return startOwn()
	}
	of, err := url.Parse(named)
	if err != nil {
		return "", fmt.Errorf("mariatest: %s: %w", urlVariable, err)
	}
	password, _ := of.User.Password()
	return fmt.Sprintf("%s:%s@tcp(%s)/", of.User.Username(), password, of.Host), nil
}

// startOwn starts a server that ends with this process.
func startOwn(options ...string) (string, error) {
	daemon, err := daemonPath()
	if err != nil {
		return "", ErrNotInstalled
	}
	directory, err := os.MkdirTemp(memory(), "idem-mariatest-")
	if err != nil {
		return "", err
	}
	owner, err := account(directory)
	if err != nil {
		return "", err
	}
	data := filepath.Join(directory, "data")
	if err := install(data, owner); err != nil {
		return "", err
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	begin := filepath.Join(directory, "begin.sql")
	const account = "CREATE USER idem@'127.0.0.1' IDENTIFIED BY 'idem';\nGRANT ALL ON *.* TO idem@'127.0.0.1';\n"
	if err := os.WriteFile(begin, []byte(account), 0o644); err != nil {
		return "", err
	}
	log := filepath.Join(directory, "log.err")
	given := []string{"--no-defaults", "--datadir=" + data, "--socket=" + filepath.Join(directory, "s"),
		"--port=" + strconv.Itoa(port), "--bind-address=127.0.0.1", "--skip-name-resolve",
		"--pid-file=" + filepath.Join(directory, "pid"),
		"--tmpdir=" + directory, // in a common one a server that starts deletes the tables of others
		"--log-error=" + log, "--init-file=" + begin, "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=32M",
		"--max-connections=300", "--idle-transaction-timeout=120", "--performance-schema=OFF"}
	if err := startUnder(owner, directory, daemon, append(given, options...)); err != nil {
		return "", err
	}
	for deadline := time.Now().Add(readyWithin); ; time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(log)
		switch {
		case strings.Contains(string(text), "ready for connections"):
			return fmt.Sprintf("idem:idem@tcp(127.0.0.1:%d)/", port), nil
		case strings.Contains(string(text), "[ERROR] Aborting"), time.Now().After(deadline):
			return "", fmt.Errorf("mariatest: the server accepts no connections: %s", text)
		}
	}
}

// daemonPath is where the server's program is. Not every user has its directory in the search path.
func daemonPath() (string, error) {
	if path, err := exec.LookPath("mariadbd"); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/mariadbd")
}

// install makes a data directory.
func install(data string, owner *syscall.Credential) error {
	command := exec.Command("mariadb-install-db", "--no-defaults", "--datadir="+data,
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
	command.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(data)) // see tmpdir
	command.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("mariatest: %w: %s", err, output)
	}
	return nil
}

// launch starts a server; ended is closed when it has ended. The kernel ends it with the test binary: a server that changed
// its user itself would lose that.
func launch(command *exec.Cmd, owner *syscall.Credential) (ended <-chan struct{}, err error) {
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: owner}
	started, over := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the kernel ends the server with the thread that has started it
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait()
			close(over)
		}
	}()
	return over, <-started
}

// held are pipes that the kernel closes when this process is gone, however it ends.
var held sync.Map

// startUnder starts a server under a shell, which ends it and removes its directory when this process is gone. Nothing of
// this process waits for them: a test that looks for goroutines that were left behind finds none.
func startUnder(owner *syscall.Credential, directory, daemon string, options []string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	const script = `directory=$1; shift; "$@" </dev/null & cat >/dev/null; kill -9 $!; wait; rm -rf "$directory"`
	shell := exec.Command("sh", append([]string{"-c", script, "sh", directory, daemon}, options...)...)
	shell.Stdin, shell.SysProcAttr = read, &syscall.SysProcAttr{Setsid: true, Credential: owner}
	held.Store(write, nil)
	return errors.Join(shell.Start(), read.Close())
}

// memory is a directory whose files are not on a disk, if there is one: the server syncs each COMMIT, as the library asks of
// it, and no test pulls the plug.
func memory() string {
	const directory, needed = "/dev/shm", 1 << 30
	var of syscall.Statfs_t
	err := syscall.Statfs(directory, &of)
	if err != nil || of.Bavail*uint64(of.Bsize) < needed {
		return ""
	}
	return directory
}

// account is the user that runs the server in place of root, to whom it gives a directory; nil: who runs the tests.
func account(directory string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	found, err := user.Lookup("mysql")
	if err != nil {
		return nil, fmt.Errorf("mariatest: MariaDB does not run as root: make a user mysql, or test as another user: %w", err)
	}
	uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr, os.Chown(directory, int(uid), int(gid))); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// freePort is below the ephemeral range, from which a client's connection might get it.
func freePort() (int, error) {
	for port := 20000 + os.Getpid()%10000; port < 32000; port++ {
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, errors.New("mariatest: there is no free port")
}

// removeBehind lets a shell remove the directory when this process is gone, however it ends.
func removeBehind(directory string) {
	read, write, err := os.Pipe()
	if err != nil {
		return
	}
	shell := exec.Command("sh", "-c", `cat >/dev/null; sleep 1; rm -rf "$1"`, "sh", directory)
	shell.Stdin, shell.SysProcAttr = read, &syscall.SysProcAttr{Setsid: true}
	if shell.Start() == nil {
		_ = read.Close()
		_ = shell.Wait()
		runtime.KeepAlive(write)
	}
}
