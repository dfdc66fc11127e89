//go:build unix

package pgtest

import (
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// lockShared waits for a lock that others may share. It ends when the file is closed, at the latest with the process.
func lockShared(file *os.File) error { return flock(file, syscall.LOCK_SH) }

// lockExclusive waits for a lock that nobody else holds in any form.
func lockExclusive(file *os.File) error { return flock(file, syscall.LOCK_EX) }

// tryLockExclusive is lockExclusive without waiting: it tells whether the lock was free.
func tryLockExclusive(file *os.File) bool { return flock(file, syscall.LOCK_EX|syscall.LOCK_NB) == nil }

// unlock ends a lock before its file is closed.
func unlock(file *os.File) error { return flock(file, syscall.LOCK_UN) }

func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if err != syscall.EINTR {
			return err
		}
	}
}

// detach starts a command in a session of its own, so that no terminal's Ctrl-C reaches it.
func detach(cmd *exec.Cmd) { attributes(cmd).Setsid = true }

// setCredential starts a command as another user.
func setCredential(cmd *exec.Cmd, uid, gid uint32) {
	attributes(cmd).Credential = &syscall.Credential{Uid: uid, Gid: gid}
}

func attributes(cmd *exec.Cmd) *syscall.SysProcAttr {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	return cmd.SysProcAttr
}

// inherited is the open file that the parent process passed on; programs started from here do not get it.
func inherited(descriptor int, name string) *os.File {
	syscall.CloseOnExec(descriptor)
	return os.NewFile(uintptr(descriptor), name)
}

func runsAsRoot() bool { return os.Geteuid() == 0 }

// isOurs tells whether a file belongs to the user who runs the tests.
func isOurs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(stat.Uid) == int64(os.Geteuid())
}

// send delivers a mode's signal to a postmaster. One that is gone already has what it needs.
func send(postmaster int, mode Mode) error {
	err := syscall.Kill(postmaster, signals[mode])
	if err == syscall.ESRCH {
		return nil
	}
	return err
}

// signals are those that PostgreSQL's server-shutdown chapter lists.
var signals = map[Mode]syscall.Signal{
	Smart:     syscall.SIGTERM,
	Fast:      syscall.SIGINT,
	Immediate: syscall.SIGQUIT,
	kill:      syscall.SIGKILL,
}
