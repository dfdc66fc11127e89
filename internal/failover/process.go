//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program that was started here.
type process struct {
	room  *room
	name  string
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
}

// start starts a server under the account of the room. What it prints is appended to NAME.log.
func (r *room) start(name, program string, args ...string) (*process, error) {
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: r.account}
	// No PGDATA, PATRONI_NAME or ETCD_NAME of somebody's own setup.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.directory, "LC_ALL=C.UTF-8"}
	return r.launch(name, cmd)
}

// launch starts a command that ends when this program ends, however it does.
func (r *room) launch(name string, cmd *exec.Cmd) (*process, error) {
	log, err := os.OpenFile(r.path(name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true // a terminal's Ctrl-C is for this program
	cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.directory, log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &process{room: r, name: name, cmd: cmd, ended: make(chan struct{})}
	r.endWith(p, p.kill)
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(p.ended)
	}()
	return p, nil
}

// endWith says how a process is ended at the end of the run.
func (r *room) endWith(p *process, end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alive[p] = end
}

// killAll ends all processes.
func (r *room) killAll() {
	r.mu.Lock()
	ends := slices.Collect(maps.Values(r.alive))
	r.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// kill ends the process at once (SIGKILL), with what it has started in its own session: a pg_basebackup, say.
func (p *process) kill() {
	if !p.hasEnded() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // fails where it has ended just now
	}
	<-p.ended
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	delete(p.room.alive, p)
}

// hasEnded reports whether the process has ended.
func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// log is what the process, and those of its name before it, have printed.
func (p *process) log() string {
	text, err := os.ReadFile(p.room.path(p.name + ".log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// childrenOf returns the processes that a process has started and that run.
func childrenOf(parent int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		// "PID (NAME) STATE PPID ...": the name may hold blanks and parentheses.
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')'):]), " ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			children = append(children, pid)
		}
	}
	return children, nil
}

// title is what a process calls itself, "" when it has ended.
func title(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(text), "\x00", " ")
}

// sendSignal sends a signal to processes. One that has ended needs none.
func sendSignal(s syscall.Signal, pids ...int) error {
	var errs []error
	for _, pid := range pids {
		if pid <= 1 { // to kill(2), 0 and what is below are groups of processes
			return fmt.Errorf("%d is no process of ours", pid)
		}
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("%v to process %d: %w", s, pid, err))
		}
	}
	return errors.Join(errs...)
}

// awaitEnd waits until processes are gone, so that nothing of theirs is in the way of the next ones.
func awaitEnd(pids ...int) error {
	pids = slices.Clone(pids) // the caller's stay as they are
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		pids = slices.DeleteFunc(pids, func(pid int) bool {
			_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
			return errors.Is(err, fs.ErrNotExist) || title(pid) == "" // a zombie has none
		})
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v do not end", pids)
		}
	}
}
