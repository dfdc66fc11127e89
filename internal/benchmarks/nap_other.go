//go:build !linux

package main

import "time"

// nap sleeps, for a millisecond at least.
func nap(d time.Duration) { time.Sleep(d) }
