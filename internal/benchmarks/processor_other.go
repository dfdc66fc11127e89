//go:build !linux

package main

import "database/sql"

// postmasterOf finds no process here.
func postmasterOf(*sql.DB) (pid int, err error) { return 0, nil }

// processorNow knows nothing here.
func processorNow(int) processorTime { return processorTime{} }
