package pgtest

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oldest is the first PostgreSQL release that the library supports.
const oldest = 13

// binariesVariable names the one directory to look at for PostgreSQL's programs.
const binariesVariable = "TEST_POSTGRES_BIN"

// errNotInstalled says that no usable PostgreSQL was found and none was named.
var errNotInstalled = errors.New("pgtest: no PostgreSQL 13 or later found: " +
	"install it (it need not be running), or name a server in TEST_DATABASE_URL, or its programs in " + binariesVariable)

// findBinaries returns the first of the directories that holds the programs of a supported PostgreSQL server.
func findBinaries(directories []string) (string, error) {
	for _, directory := range directories {
		if version(filepath.Join(directory, "postgres")) < oldest {
			continue
		}
		if _, err := exec.LookPath(filepath.Join(directory, "initdb")); err == nil {
			return directory, nil
		}
	}
	return "", errNotInstalled
}

// installed lists the directories where PostgreSQL's programs may be, those of the user's own choice first.
func installed() []string {
	if chosen := os.Getenv(binariesVariable); chosen != "" {
		return []string{chosen}
	}
	var directories []string
	if initdb, err := exec.LookPath("initdb"); err == nil {
		if initdb, err = filepath.EvalSymlinks(initdb); err == nil {
			directories = append(directories, filepath.Dir(initdb))
		}
	}
	if output, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		directories = append(directories, strings.TrimSpace(string(output)))
	}
	var found []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/pgsql-*/bin",          // PostgreSQL's own RPMs
		"/usr/libexec/postgresql*",  // Alpine
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		matches, err := filepath.Glob(pattern)
		if err == nil {
			found = append(found, matches...)
		}
	}
	slices.SortStableFunc(found, func(a, b string) int { return cmp.Compare(firstNumber(b), firstNumber(a)) })
	return append(directories, found...)
}

// version is the major version of a postgres program, 0 if there is none.
func version(postgres string) int {
	output, err := exec.Command(postgres, "--version").Output()
	if err != nil {
		return 0
	}
	return firstNumber(string(output))
}

// firstNumber is the first whole number in s, 0 if there is none.
func firstNumber(s string) int {
	n, err := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(s))
	if err != nil {
		return 0
	}
	return n
}
