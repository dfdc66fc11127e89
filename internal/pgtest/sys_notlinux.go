//go:build !linux

package pgtest

import "os/exec"

// endWithParent has no counterpart here: should the supervisor be killed, PostgreSQL runs on until the next [sweep].
func endWithParent(*exec.Cmd) {}
