//go:build !unix

package pgtest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
)

// Servers are started on Unix systems only; elsewhere the tests run on the server that TEST_DATABASE_URL names.

func lockShared(*os.File) error               { return errors.ErrUnsupported }
func lockExclusive(*os.File) error            { return errors.ErrUnsupported }
func tryLockExclusive(*os.File) bool          { return false }
func unlock(*os.File) error                   { return errors.ErrUnsupported }
func detach(*exec.Cmd)                        {}
func setCredential(*exec.Cmd, uint32, uint32) {}
func inherited(fd int, name string) *os.File  { return os.NewFile(uintptr(fd), name) }
func runsAsRoot() bool                        { return false }
func isOurs(fs.FileInfo) bool                 { return true }
func send(int, Mode) error                    { return errors.ErrUnsupported }
