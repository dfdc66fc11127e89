package pgtest

import (
	"os/exec"
	"syscall"
)

// endWithParent lets the kernel stop the postmaster if its supervisor is killed. The signal is tied to the thread that
// starts the command: a supervisor does that on the main thread, where init functions run.
func endWithParent(postmaster *exec.Cmd) { attributes(postmaster).Pdeathsig = syscall.SIGQUIT }
