//go:build !linux

package main

import (
	"errors"
	"io"
)

// serveProxy cannot sleep for half a millisecond here.
func serveProxy(_, _ string, _ io.Reader, _ io.Writer) error {
	return errors.New("the proxy needs Linux")
}
