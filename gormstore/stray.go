package gormstore

import (
	"bytes"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"gorm.io/gorm"
)

// ReportStrayWrites is for development. While a Rollback attempt runs, it calls report with the file and line of each
// write by the attempt's goroutine that goes through GORM without the attempt's context: db.Create instead of
// gormstore.Tx(ctx).Create. The write guard cannot refuse such a write, and it stays when the attempt is rolled back.
// Each place is reported once for each store. Writes with the context of [Outside] are not reported.
//
//	gormstore.New(db, gormstore.ReportStrayWrites(func(place string) { slog.Warn("write past the attempt", "place", place) }))
//
// Do not use it in production: it has to find out which goroutine writes, which costs some microseconds for each write.
// The tool idemvet finds many of these writes in the source code. Default: nothing is reported.
func ReportStrayWrites(report func(place string)) Option {
	return func(o *options) { o.stray = report }
}

// strays reports the stray writes of a store's attempts.
type strays struct {
	report func(place string)
	seen   sync.Map
}

// running are the goroutines of Rollback attempts whose stores report stray writes: id -> *strays.
var (
	running      sync.Map
	runningCount atomic.Int64 // 0 in production: then nobody asks for a goroutine's id
)

// watchStrays notes that this goroutine runs the attempt, until the transaction ends.
func (t *tx) watchStrays() {
	t.ending.Lock()
	defer t.ending.Unlock()
	if t.store.strays == nil || t.ended || t.unwatch != nil {
		return
	}
	id := goroutine()
	running.Store(id, t.store.strays)
	runningCount.Add(1)
	t.unwatch = func() {
		running.Delete(id)
		runningCount.Add(-1)
	}
}

// reportStray reports a write by db, which carries no attempt, if its goroutine runs one.
func reportStray(db *gorm.DB) {
	if runningCount.Load() == 0 || db.Statement.Context.Value(outsideKey{}) != nil || bindingFrom(db.Statement.Context) != nil {
		return
	}
	found, ok := running.Load(goroutine())
	if !ok {
		return
	}
	s := found.(*strays)
	place := caller()
	if _, again := s.seen.LoadOrStore(place, true); !again {
		s.report(place)
	}
}

// caller returns the place outside of GORM and this package that has called them.
func caller() string {
	var callers [32]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		ours := strings.HasPrefix(frame.Function, "github.com/auth19/idem/gormstore.")
		if !ours && !strings.HasPrefix(frame.Function, "gorm.io/") {
			return frame.File + ":" + strconv.Itoa(frame.Line)
		}
		if !more {
			return ""
		}
	}
}

// goroutine returns the first words of the goroutine's stack, "goroutine 7", which no other goroutine has. The runtime has
// no better name for it.
func goroutine() string {
	var first [32]byte
	words, _, _ := bytes.Cut(first[:runtime.Stack(first[:], false)], []byte(" ["))
	return string(words)
}
