package galera

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/storetest"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/internal/dialect/mysql/suite/subject"
)

var withStore = flag.Bool("store", false, "run the suite of stores over two nodes, too")

// The suite of stores on a cluster: one instance is on one node, its twin on another. It has passed, and under load
// KeyTime/SweepRace and Proposal/AtOnce have each failed once, and nobody knows why yet. For that a node is refused without
// gormstore.Untried.
//
// CONTRACT M-1, M-3, M-6, M-8, X-0, X-2, X-4, X-14, X-15
func TestStore(t *testing.T) {
	if !*withStore {
		t.Skip("by hand, with -store: it fails now and then, and it is not known why")
	}
	w := newWorld(t, settings)
	features := storetest.Features{
		Attempts: true, Rows: true, Shared: true, Watch: true, Settings: true, Proposed: true, Nodes: true,
	}
	require.NoError(t, w.dbs[0].Exec("CREATE TABLE effects (name varchar(255) NOT NULL) ENGINE=InnoDB").Error)
	newSubject := func(t *testing.T) storetest.Subject { return subject.New(t, w.dbs[0], w.dbs[1], gormstore.Untried()) }
	storetest.Run(t, newSubject, features)
	t.Run("stress", func(t *testing.T) { storetest.Stress(t, newSubject, features) })
}

// Each setting that would break a promise on a cluster is found on a node, and the line that is named mends it.
//
// CONTRACT F-2, F-5, M-3
func TestValidate(t *testing.T) {
	w := newWorld(t, settings)
	node := w.cluster.Nodes[1]
	validate := func(settings string) error {
		st, err := gormstore.New(open(t, node, settings), gormstore.Untried())
		require.NoError(t, err)
		return st.Validate(t.Context())
	}
	require.ErrorContains(t, validate(""), "add wsrep_sync_wait=1")
	require.NoError(t, validate("?wsrep_sync_wait=1"))
	st, err := gormstore.New(open(t, node, "?wsrep_sync_wait=1"))
	require.NoError(t, err)
	require.ErrorContains(t, st.Validate(t.Context()), "a node of a Galera cluster")
	for setting, value := range map[string]string{
		"wsrep_dirty_reads": "1", "wsrep_osu_method": "'RSU'", "wsrep_trx_fragment_size": "1024", "wsrep_on": "0",
	} {
		require.ErrorContains(t, validate("?wsrep_sync_wait=1&"+setting+"="+value), setting)
	}
}
