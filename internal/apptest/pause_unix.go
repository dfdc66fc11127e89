//go:build unix

package apptest

import "syscall"

const (
	stop = syscall.SIGSTOP
	cont = syscall.SIGCONT
)
