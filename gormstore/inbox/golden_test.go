package inbox

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/gormstore/internal/txn"
)

// Instances of two releases meet at this number: a test here that fails is a bug in the code, never in the value.
//
// CONTRACT K-9
func TestGoldenLock(t *testing.T) {
	m := (&Inbox{cfg: Config{Group: "stock"}}).marker(Message{Source: "payments", ID: "7"})
	require.Equal(t, int64(2305975448316603659), m.Lock())
	require.NotEqual(t, m.Lock(), txn.LockKey(m.id), "another namespace")
}
