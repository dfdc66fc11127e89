package gormstore

import (
	"errors"
	"sync"
	"sync/atomic"
)

// Notice tells the store of a notice that the server has sent over the connection with the given backend process. It
// is for servers with a synchronous standby. If somebody cancels a COMMIT that waits for the standby
// (pg_cancel_backend), PostgreSQL says that it has committed, with a warning: here, perhaps not there. A store that is
// told takes the COMMIT as unconfirmed until the standby has it. With pgx:
//
//	config.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) { store.Notice(c.PID(), n.Code) }
//
// sqlstate is the notice's code. The method returns at once, and a nil store takes no notice. Behind a pooler like
// PgBouncer the driver does not know the server's own process, and warnings are not recognised: cancel no COMMIT there.
func (s *Store) Notice(pid uint32, sqlstate string) {
	const success = "00000" // of what is no warning
	if s != nil && sqlstate != success {
		s.notices.warn(pid)
	}
}

var errWarned = errors.New("idem: gormstore: the server has answered COMMIT with a warning")

// notices are the backends that a COMMIT is under way on.
type notices struct{ warned sync.Map } // pid -> *atomic.Bool

// expect begins to listen for warnings of a backend. The function that it returns ends that, and reports whether there
// was one.
func (n *notices) expect(pid uint32) (warned func() bool) {
	if pid == 0 {
		return func() bool { return false }
	}
	var mark atomic.Bool
	n.warned.Store(pid, &mark)
	return func() bool {
		n.warned.CompareAndDelete(pid, &mark)
		return mark.Load()
	}
}

func (n *notices) warn(pid uint32) {
	if mark, ok := n.warned.Load(pid); ok {
		mark.(*atomic.Bool).Store(true)
	}
}
