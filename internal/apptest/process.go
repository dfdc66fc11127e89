// Package apptest runs the example apps as separate processes, and talks to them over HTTP. It is for tests that kill them.
package apptest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for a process, on a busy machine too.
const patience = 2 * time.Minute

// Build builds the program of an import path, and returns its file.
func Build(t testing.TB, importPath string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "app")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", file, importPath).CombinedOutput()
	if err != nil {
		t.Fatalf("go build %s: %v\n%s", importPath, err, output)
	}
	return file
}

// Process is a running app.
type Process struct {
	URL    string            // as the app prints it
	Tokens map[string]string // the app's ready-made tokens by name: customer-1, customer-2, seller-1, operator-1

	cmd            *exec.Cmd
	ended          chan struct{} // closed when the process has ended
	stdout, stderr log
}

// Start starts an app in the folder dir on a free port, and waits until it listens. The app gets this process's environment
// without the settings of the example apps, and env ("NAME=value") in addition. The process is killed when the test ends.
func Start(t testing.TB, program, dir string, env ...string) *Process {
	t.Helper()
	p := launch(t, program, dir, env)
	deadline := time.Now().Add(patience)
	for {
		if p.read() {
			return p
		}
		select {
		case <-p.ended:
			t.Fatalf("%s has ended with code %d\n%s", program, p.cmd.ProcessState.ExitCode(), p.Output())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen\n%s", program, p.Output())
		}
	}
}

// Refused starts an app that is expected to refuse to start, and returns its exit code and what it printed.
func Refused(t testing.TB, program, dir string, env ...string) (code int, printed string) {
	t.Helper()
	p := launch(t, program, dir, env)
	code = p.Wait(t)
	return code, p.Output()
}

func launch(t testing.TB, program, dir string, env []string) *Process {
	t.Helper()
	// The process outlives t.Context, which ends before the clean-up.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "DATABASE_URL=", "JWT_SECRET=", "JWKS_URL=", "LEASE=", "DEADLINE=",
		"RETENTION=", "KEY_AGE=", "STALL=", "ATTEMPTS=", "UNSAFE_SIMULATOR=", "CORS_ORIGIN=")
	cmd.Env = append(cmd.Env, env...)
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() { p.Kill(t) })
	return p
}

// read finds the address and the tokens in what the app has printed. It returns false if the address is not there yet.
func (p *Process) read() bool {
	tokens := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(p.stdout.String()))
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			p.URL, p.Tokens = url, tokens
			return true
		}
		if name, token, ok := strings.Cut(lines.Text(), ": eyJ"); ok {
			tokens[name] = "eyJ" + token
		}
	}
	return false
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output returns what the process has printed so far, on both outputs.
func (p *Process) Output() string { return p.stdout.String() + p.stderr.String() }

// Log returns what the process has logged so far, which is what it printed on its standard error.
func (p *Process) Log() string { return p.stderr.String() }

// Kill ends the process at once (SIGKILL). It does nothing if the process has ended.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("kill: %v", err)
	}
	p.Wait(t)
}

// Pause freezes the process (SIGSTOP), as a long pause of its machine would. Continue lets it run again.
func (p *Process) Pause() error { return p.cmd.Process.Signal(stop) }

// Continue ends a Pause (SIGCONT).
func (p *Process) Continue() error { return p.cmd.Process.Signal(cont) }

// Stop asks the process to end (SIGTERM), waits, and returns its exit code.
func (p *Process) Stop(t testing.TB) (code int) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("terminate: %v", err)
	}
	return p.Wait(t)
}

// Wait waits until the process ends by itself, and returns its exit code: -1 if a signal ended it.
func (p *Process) Wait(t testing.TB) (code int) {
	t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		t.Fatalf("the process does not end\n%s", p.Output())
		return 0
	}
}

// log collects what a process prints.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

var _ io.Writer = (*log)(nil)

// Write implements [io.Writer].
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all of it.
func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
