package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/auth19/idem/gormstore/internal/dialect"
)

// rule is what the library asks of a setting of the server, or of the connection.
type rule struct {
	setting string
	right   func(value string, set map[string]string) bool
	why     string // and the line that mends it
}

const isolationMends = "add tx_isolation='REPEATABLE-READ' to the connection's address"

// rules are judged where the server has the setting.
var rules = []rule{
	{"innodb_flush_log_at_trx_commit", is("1"), "a crash would lose money: SET GLOBAL innodb_flush_log_at_trx_commit = 1"},
	{"sync_binlog", unlessLogged(is("1")), "a crash would lose money: SET GLOBAL sync_binlog = 1"},
	{"binlog_format", unlessLogged(is("ROW", "MIXED")), "the server refuses READ COMMITTED: SET GLOBAL binlog_format = ROW"},
	{"innodb_doublewrite", is("ON"), "a crash could tear a page: start the server with innodb_doublewrite = ON"},
	{"innodb_flush_method", is("fsync", "O_DSYNC", "O_DIRECT", "O_DIRECT_NO_FSYNC"), "a crash would lose money: start the " +
		"server with innodb_flush_method = O_DIRECT"},
	{"tx_isolation", is("READ-COMMITTED", "REPEATABLE-READ"), isolationMends},
	{"transaction_isolation", is("READ-COMMITTED", "REPEATABLE-READ"), isolationMends}, // MariaDB 11.1 and later
	{"innodb_snapshot_isolation", is("OFF"), "a row that has changed since would fail with 1020, which is not known as " +
		"a conflict: add innodb_snapshot_isolation=0 to the connection's address"}, // ON by default in MariaDB 11.6.2 and later
	{"tx_read_only", is("OFF"), "nothing can be written: take tx_read_only out of the connection's address"},
	{"autocommit", is("ON"), "take it out of the connection's address"},
	{"completion_type", is("NO_CHAIN"), "add completion_type=NO_CHAIN to the connection's address"},
	{"sql_mode", has("STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"), "texts and numbers would be cut in silence: add " +
		"sql_mode='TRADITIONAL' to the connection's address"},
	{"character_set_client", is("utf8mb4", "utf8mb3", "utf8", "latin1", "ascii", "binary"), "a character may end in a " +
		"backslash, which the guards read as one: add charset=utf8mb4 to the connection's address"},
	{"max_allowed_packet", between(4<<20, 1<<40), "an answer of 1 MiB would not fit: SET GLOBAL max_allowed_packet = 16777216"},
	{"idle_transaction_timeout", func(value string, set map[string]string) bool {
		const longest = 600
		return between(1, longest)(value, nil) || between(1, longest)(set["wait_timeout"], nil)
	}, "a host that is gone would hold its keys: add idle_transaction_timeout=120 to the connection's address, twice the " +
		"attempt's deadline"},
	{"innodb_lock_wait_timeout", between(1, 60), "a statement would wait beyond the attempt's deadline: add " +
		"innodb_lock_wait_timeout=50 to the connection's address"},
	{"wsrep_on", inCluster(is("ON")), "what is written would stay on this node: take it out of the connection's address"},
	{"wsrep_sync_wait", inCluster(isOdd), "a node that is behind would not show a record, and run its command again: add " +
		"wsrep_sync_wait=1 to the connection's address"},
	{"wsrep_dirty_reads", inCluster(is("OFF")), "a node that is cut off would answer: take it out of the connection's address"},
	{"wsrep_osu_method", inCluster(is("TOI")), "a migration would stay on this node: SET GLOBAL wsrep_osu_method = TOI"},
	{"wsrep_trx_fragment_size", inCluster(is("0")), "parts of a transaction would leave before its COMMIT: add " +
		"wsrep_trx_fragment_size=0 to the connection's address"},
	{"wsrep_certify_nonpk", inCluster(is("ON")), "two nodes could change one row: SET GLOBAL wsrep_certify_nonPK = ON"},
	{"wsrep_max_ws_size", inCluster(between(4<<20, 1<<31)), "an answer of 1 MiB would not fit: SET GLOBAL " +
		"wsrep_max_ws_size = 2147483647"},
	{providerOptions, inCluster(needsMajority), "each half of a cluster that is cut in two would take commands: take " +
		"pc.ignore_quorum and pc.ignore_sb out of wsrep_provider_options"},
}

// readSettings reads those that rules name, and what they depend on.
func readSettings(ctx context.Context, q dialect.Querier) (map[string]string, error) {
	names := []string{"'log_bin'", "'read_only'", "'wait_timeout'", "'version'", "'version_comment'", "'wsrep_provider'"}
	for _, r := range rules {
		names = append(names, "'"+r.setting+"'")
	}
	rows, err := q.QueryContext(ctx, "SHOW SESSION VARIABLES WHERE variable_name IN ("+strings.Join(names, ", ")+")")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	set := make(map[string]string, len(names))
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		set[strings.ToLower(name)] = value
	}
	if _, known := set[providerOptions]; !known || rows.Err() != nil {
		return set, rows.Err()
	}
	var whole string // what the server shows of all settings is cut
	err = q.QueryRowContext(ctx, "SELECT @@"+providerOptions).Scan(&whole)
	set[providerOptions] = whole
	return set, err
}

const providerOptions = "wsrep_provider_options"

// judge returns what is wrong.
func judge(set map[string]string) (errs []error) {
	if set["read_only"] != "OFF" {
		errs = append(errs, dialect.NoWritesError("the server is read_only: connect to the primary"))
	}
	if !isTried(set["version"]) {
		errs = append(errs, dialect.UntriedError(fmt.Sprintf("the server is %s (%s): no test of this library has passed on one, "+
			"only on MariaDB 10.11. To try it, give gormstore.New the option gormstore.Untried", set["version"],
			set["version_comment"])))
	}
	if set["wsrep_on"] == "ON" {
		errs = append(errs, dialect.UntriedError("the server is a node of a Galera cluster: timed keys and proposals "+
			"have failed a test on one, see docs/beyond-one-machine.md. To try it, give gormstore.New the option gormstore.Untried"))
	}
	for _, r := range rules {
		if value, known := set[r.setting]; known && !r.right(value, set) {
			errs = append(errs, fmt.Errorf("%s is %s: %s", r.setting, cmp.Or(value, "empty"), r.why))
		}
	}
	return errs
}

func is(right ...string) func(string, map[string]string) bool {
	return func(value string, _ map[string]string) bool {
		return slices.ContainsFunc(right, func(one string) bool { return strings.EqualFold(one, value) })
	}
}

// has: one of them is in the list.
func has(right ...string) func(string, map[string]string) bool {
	return func(value string, _ map[string]string) bool {
		return slices.ContainsFunc(strings.Split(value, ","), func(one string) bool { return slices.Contains(right, one) })
	}
}

func between(least, most int) func(string, map[string]string) bool {
	return func(value string, _ map[string]string) bool {
		n, err := strconv.Atoi(value)
		return err == nil && least <= n && n <= most
	}
}

// unlessLogged: it is of no weight where no binary log is written.
func unlessLogged(right func(string, map[string]string) bool) func(string, map[string]string) bool {
	return func(value string, set map[string]string) bool { return set["log_bin"] == "OFF" || right(value, set) }
}

// inCluster: it is of no weight where the server is no node of a Galera cluster.
func inCluster(right func(string, map[string]string) bool) func(string, map[string]string) bool {
	return func(value string, set map[string]string) bool {
		alone := is("", "none")(set["wsrep_provider"], nil)
		return alone || right(value, set)
	}
}

// inGalera reports whether the server is a node of a Galera cluster.
func inGalera(ctx context.Context, q dialect.Querier) (bool, error) {
	var name, value string
	err := q.QueryRowContext(ctx, "SHOW GLOBAL VARIABLES LIKE 'wsrep_on'").Scan(&name, &value)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return value == "ON", err
}

// isOdd: its lowest bit is set.
func isOdd(value string, _ map[string]string) bool {
	n, err := strconv.Atoi(value)
	return err == nil && n&1 == 1
}

var withoutMajority = regexp.MustCompile(`pc\.ignore_(?:quorum|sb) *= *(?i:true|yes|on|1)`)

func needsMajority(value string, _ map[string]string) bool {
	return !withoutMajority.MatchString(value)
}

// tried are the releases on which the tests run.
var tried = regexp.MustCompile(`^(?:5\.5\.5-)?10\.11\..*MariaDB`)

func isTried(server string) bool {
	return tried.MatchString(server)
}
