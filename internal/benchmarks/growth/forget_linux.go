package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// forgetFile takes a file out of the system's cache, as far as it has been written.
func forgetFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED), file.Close())
}
