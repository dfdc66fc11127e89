// Package suite runs the suites over MariaDB. It is a module of its own: the driver is no requirement of the library.
package suite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/storetest"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/internal/dialect/mysql/suite/subject"
	"github.com/auth19/idem/internal/mariatest"
)

// The store passes the suite of stores.
//
// CONTRACT M-1, M-3, M-6, X-0, X-2, X-4, X-14, X-15
func TestStore(t *testing.T) {
	for name, options := range map[string]string{"one by one": "", "as one text": "?multiStatements=true"} {
		t.Run(name, func(t *testing.T) { testStore(t, mariatest.Address(t)+options) })
	}
}

func testStore(t *testing.T, address string) {
	db, twin := open(t, address), open(t, address)
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, db.Exec("CREATE TABLE effects (name varchar(255) NOT NULL) ENGINE=InnoDB").Error)
	newSubject := func(t *testing.T) storetest.Subject { return subject.New(t, db, twin) }
	features := storetest.Features{Attempts: true, Rows: true, Shared: true, Watch: true, Settings: true, Proposed: true}
	storetest.Run(t, newSubject, features)
	t.Run("stress", func(t *testing.T) { storetest.Stress(t, newSubject, features) })
}

var (
	open     = subject.Open
	newStore = subject.Store
)
