package main

import (
	"syscall"
	"time"
)

// nap sleeps for a part of a millisecond. time.Sleep sleeps for a whole one where the process has nothing else to do: the
// runtime then waits in epoll, which counts milliseconds.
func nap(d time.Duration) {
	if d > 0 {
		ts := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&ts, nil)
	}
}
