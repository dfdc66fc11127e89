//go:build !linux

package main

import "errors"

func forgetFile(string) error { return errors.ErrUnsupported }
