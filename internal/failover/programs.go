//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// programs are the files of what is started.
type programs struct {
	etcd, patroni, pgbouncer string
	postgres                 string // the directory of postgres, initdb, pg_rewind and pg_basebackup
}

// findPrograms finds them where Debian installs them. The error names all that are missing, and how to install them.
func findPrograms() (p programs, err error) {
	var missing []string
	find := func(name, hint string) string {
		file, err := exec.LookPath(name)
		if err != nil {
			file, err = exec.LookPath("/usr/sbin/" + name) // not in everybody's PATH
		}
		if err != nil {
			missing = append(missing, hint)
		}
		return file
	}
	p.etcd = find("etcd", "etcd-server")
	p.patroni = find("patroni", "patroni")
	p.pgbouncer = find("pgbouncer", "pgbouncer")
	if p.postgres = newestPostgres(); p.postgres == "" {
		missing = append(missing, "postgresql")
	}
	if len(missing) == 0 {
		return p, nil
	}
	return p, fmt.Errorf("not installed: %s; on Debian 12, as root:\n"+
		"apt-get update && apt-get install -y --no-install-recommends %[1]s\n"+
		"Where Debian starts them as services, these are not used, and not in the way", strings.Join(missing, " "))
}

// newestPostgres is the directory of the programs of the newest PostgreSQL; "" where there is none.
func newestPostgres() string {
	directories, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // fails on a bad pattern only
	directories = slices.DeleteFunc(directories, func(directory string) bool {
		_, err := os.Stat(filepath.Join(directory, "initdb"))
		return err != nil
	})
	if len(directories) == 0 {
		return ""
	}
	return slices.MaxFunc(directories, func(a, b string) int { return cmp.Compare(major(a), major(b)) })
}

func major(directory string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(directory))) // 0 for what is no version
	return n
}
