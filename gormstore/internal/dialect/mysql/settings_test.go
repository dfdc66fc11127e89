package mysql

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/gormstore/internal/dialect"
)

// Each setting that could lose or double money is refused, with the line that mends it.
//
// CONTRACT F-2, F-5
func TestJudge(t *testing.T) {
	good := map[string]string{
		"version": "10.11.6-MariaDB-0+deb12u1", "innodb_flush_log_at_trx_commit": "1", "sync_binlog": "0", "log_bin": "OFF",
		"binlog_format": "STATEMENT", "innodb_doublewrite": "ON", "innodb_flush_method": "fsync", "tx_isolation": "REPEATABLE-READ",
		"tx_read_only": "OFF", "read_only": "OFF", "autocommit": "ON", "completion_type": "NO_CHAIN",
		"sql_mode": "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION", "character_set_client": "utf8mb4", "max_allowed_packet": "16777216",
		"idle_transaction_timeout": "120", "wait_timeout": "28800", "innodb_lock_wait_timeout": "50", "wsrep_on": "OFF",
		"wsrep_provider": "none", "wsrep_sync_wait": "0", "wsrep_provider_options": "",
	}
	require.Empty(t, judge(good))
	for _, one := range []struct{ name, value, mends string }{
		{"version", "8.4.3", "MariaDB 10.11"}, {"version", "10.6.29-MariaDB", "MariaDB 10.11"}, {"version", "11.8.2-MariaDB", "MariaDB 10.11"}, {"version", "8.0.11-TiDB-v8.5.3", "MariaDB"},
		{"innodb_flush_log_at_trx_commit", "2", "SET GLOBAL innodb_flush_log_at_trx_commit = 1"},
		{"log_bin", "ON", "SET GLOBAL sync_binlog = 1"}, {"log_bin", "ON", "SET GLOBAL binlog_format = ROW"},
		{"innodb_doublewrite", "OFF", "innodb_doublewrite = ON"}, {"innodb_flush_method", "nosync", "innodb_flush_method = O_DIRECT"},
		{"tx_isolation", "SERIALIZABLE", "tx_isolation='REPEATABLE-READ'"},
		{"tx_isolation", "READ-UNCOMMITTED", "tx_isolation='REPEATABLE-READ'"},
		{"tx_read_only", "ON", "tx_read_only"}, {"innodb_snapshot_isolation", "ON", "innodb_snapshot_isolation=0"}, {"read_only", "ON", "connect to the primary"}, {"autocommit", "OFF", "take it out"},
		{"completion_type", "CHAIN", "completion_type=NO_CHAIN"}, {"sql_mode", "", "sql_mode='TRADITIONAL'"},
		{"character_set_client", "gbk", "charset=utf8mb4"}, {"max_allowed_packet", "1048576", "SET GLOBAL max_allowed_packet"},
		{"idle_transaction_timeout", "0", "idle_transaction_timeout=120"}, {"innodb_lock_wait_timeout", "120", "innodb_lock_wait_timeout=50"},
	} {
		set := maps.Clone(good)
		set[one.name] = one.value
		errs := judge(set)
		require.NotEmpty(t, errs, one.name)
		var all string
		for _, err := range errs {
			all += err.Error() + "\n"
		}
		require.Contains(t, all, one.mends)
	}
	set := maps.Clone(good)
	set["version"] = "5.5.5-10.11.2-MariaDB"
	set["idle_transaction_timeout"], set["wait_timeout"] = "0", "60"
	require.Empty(t, judge(set))
}

// So is a node of a cluster.
//
// CONTRACT F-2, F-5, M-3
func TestJudgeNode(t *testing.T) {
	node := map[string]string{
		"version": "10.11.19-MariaDB-deb12", "read_only": "OFF", "wsrep_provider": "/usr/lib/galera/libgalera_smm.so", "wsrep_on": "ON", "wsrep_sync_wait": "7",
		"wsrep_dirty_reads": "OFF", "wsrep_osu_method": "TOI", "wsrep_trx_fragment_size": "0", "wsrep_certify_nonpk": "ON",
		"wsrep_max_ws_size": "2147483647", "wsrep_provider_options": "gcs.x = 1; pc.ignore_quorum = false; pc.ignore_sb = false;",
	}
	isUntried := func(err error) bool {
		_, untried := errors.AsType[dialect.UntriedError](err)
		return untried
	}
	alone := judge(node)
	require.Len(t, alone, 1)
	require.True(t, isUntried(alone[0]))
	for _, one := range []struct{ name, value, mends string }{
		{"wsrep_on", "OFF", "out of the connection's address"}, {"wsrep_sync_wait", "0", "wsrep_sync_wait=1"},
		{"wsrep_sync_wait", "6", "wsrep_sync_wait=1"}, {"wsrep_dirty_reads", "ON", "out of the connection's address"},
		{"wsrep_osu_method", "RSU", "SET GLOBAL wsrep_osu_method"}, {"wsrep_trx_fragment_size", "1024", "wsrep_trx_fragment_size=0"},
		{"wsrep_certify_nonpk", "OFF", "SET GLOBAL wsrep_certify_nonPK"}, {"wsrep_max_ws_size", "65536", "SET GLOBAL wsrep_max_ws_size"},
		{"wsrep_provider_options", "pc.checksum = false; pc.ignore_quorum = true; pc.ignore_sb = false", "out of wsrep_provider_options"},
		{"wsrep_provider_options", "pc.ignore_sb=YES", "out of wsrep_provider_options"},
	} {
		set := maps.Clone(node)
		set[one.name] = one.value
		errs := slices.DeleteFunc(judge(set), isUntried)
		require.Len(t, errs, 1, one.name)
		require.ErrorContains(t, errs[0], one.mends)
	}
}
