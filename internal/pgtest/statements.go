package pgtest

import (
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// linePrefix is the log_line_prefix of the servers: time, process, database.
const linePrefix = "%m [%p] %d "

// logRecord is the first line of a record in the server's log; the lines that continue it begin with a tab.
var logRecord = regexp.MustCompile(`^\S+ \S+ \S+ \[\d+\] (\S*) ([A-Z0-9]+):  (.*)$`)

// executed is how log_statement reports a statement of the simple and of the extended query protocol.
var executed = regexp.MustCompile(`^(?:statement|execute [^:]*): (.*)$`)

// Statements makes the server log what the given database executes over new connections, and returns a function that
// reads it: each call returns the statements since the call before, in order, as SQL text without parameter values.
// Statements are those that clients sent, over both query protocols, also those that failed while they ran. Pings of
// connection pools ("-- ping") are left out, since their number depends on time.
//
// The server must be one that this package started ([URL] without TEST_DATABASE_URL, or [Own]): no other server's log
// can be read.
func Statements(t testing.TB, databaseURL string) func() []string {
	t.Helper()
	target, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal("pgtest: Statements needs a database's URL")
	}
	server, ok := serverAt(target.Host)
	if !ok {
		t.Fatalf("pgtest: the statements of %s are in the log of a server that was not started here, where it cannot "+
			"be read: unset TEST_DATABASE_URL, or give this test a server by pgtest.Own", target.Host)
	}
	database := strings.TrimPrefix(target.Path, "/")
	err = execute(t.Context(), server.url, nil,
		"ALTER DATABASE "+pgx.Identifier{database}.Sanitize()+" SET log_statement = 'all'")
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	log, err := os.Open(server.file(logFile))
	if err == nil {
		_, err = log.Seek(0, io.SeekEnd)
	}
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return func() []string {
		t.Helper()
		text, err := io.ReadAll(log)
		if err != nil {
			t.Fatalf("pgtest: %v", err)
		}
		return parseStatements(string(text), database)
	}
}

// serverAt finds the server of this user that listens on host, which includes the port.
func serverAt(host string) (*server, bool) {
	files, _ := filepath.Glob(filepath.Join(rootPath(), "*", urlFile)) // fails on a bad pattern only
	for _, file := range files {
		directory := filepath.Dir(file)
		serverURL, err := readURL(directory)
		if err == nil && serverURL.Host == host {
			return &server{directory: directory, url: serverURL}, true
		}
	}
	return nil, false
}

// parseStatements finds in a part of the log what the database executed.
func parseStatements(log, database string) []string {
	var statements []string
	var mine bool // the record that is being read is one of the database's statements
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		if rest, continues := strings.CutPrefix(line, "\t"); continues {
			if mine {
				statements[len(statements)-1] += "\n" + rest
			}
			continue
		}
		record := logRecord.FindStringSubmatch(line)
		mine = record != nil && record[1] == database && record[2] == "LOG"
		if !mine {
			continue
		}
		statement := executed.FindStringSubmatch(record[3])
		mine = statement != nil && statement[1] != "-- ping"
		if mine {
			statements = append(statements, statement[1])
		}
	}
	return statements
}
