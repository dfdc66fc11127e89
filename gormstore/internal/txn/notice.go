package txn

import (
	"errors"
	"sync"
)

// errWarned says that the server has answered COMMIT with a warning. Its standby may not have what was committed.
var errWarned = errors.New("idem: gormstore: the server has answered COMMIT with a warning")

// Notices are the backends that have sent a warning. A COMMIT looks whether its own is among them.
type Notices struct{ warned sync.Map } // pid

// Expect listens for warnings of a backend until warned is called. warned reports whether there was one.
func (n *Notices) Expect(pid uint32) (warned func() bool) {
	n.warned.Delete(pid) // of an earlier statement
	return func() bool { return n.Warned(pid) }
}

// Warned reports whether a backend has sent a warning since it was asked, or since Expect.
func (n *Notices) Warned(pid uint32) bool {
	_, warned := n.warned.LoadAndDelete(pid)
	return warned
}

// Warn notes a warning of a backend.
func (n *Notices) Warn(pid uint32) { n.warned.Store(pid, nil) }
