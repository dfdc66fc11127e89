//go:build !unix

package apptest

import "syscall"

// Elsewhere a process cannot be paused: Pause fails.
const (
	stop = syscall.Signal(-1)
	cont = syscall.Signal(-1)
)
