package main

import (
	"database/sql"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// postmasterOf returns the process id of a server's postmaster: the parent of the process that answers. It is 0 where the
// server runs on another machine or in a container.
func postmasterOf(pool *sql.DB) (pid int, err error) {
	var backend int
	if err := pool.QueryRow("SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return 0, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", backend))
	_, rest, isPostgres := strings.Cut(string(stat), " (postgres) ")
	if err != nil || !isPostgres {
		return 0, nil //nolint:nilerr // the id is that of another machine
	}
	parent := strings.Fields(rest)[1] // behind the state
	return strconv.Atoi(parent)
}

// processorNow reads the processor time of this process, and of the processes of the server with that postmaster.
func processorNow(postmaster int) (now processorTime) {
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return processorTime{}
	}
	now.app = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	if postmaster == 0 {
		return now
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", postmaster, postmaster))
	if err != nil {
		return now
	}
	now.server = make(map[int]time.Duration)
	for child := range strings.FieldsSeq(string(children)) {
		spent, err := os.ReadFile("/proc/" + child + "/schedstat") // in nanoseconds; those of stat are hundredths of a second
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(child)
		first, _, _ := strings.Cut(string(spent), " ")
		nanoseconds, _ := strconv.ParseInt(first, 10, 64)
		now.server[pid] = time.Duration(nanoseconds)
	}
	return now
}
