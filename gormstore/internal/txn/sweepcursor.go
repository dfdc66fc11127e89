package txn

import (
	"context"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
)

// SweepCursor is where the batches of a sweep have got to, in the order of an index of times. While somebody holds a
// snapshot (a report, a replica that is stuck), what a batch has swept stays in the index as a dead entry. A batch that
// began at the beginning would walk over what all batches before it have left.
type SweepCursor struct {
	mu    sync.Mutex
	at    int64     // where the last batch ended; 0: the next one begins at the beginning
	begun time.Time // when a batch began there
}

// beginAgain is how long batches go on behind each other. Then one begins at the beginning: what others held has been passed
// over.
const beginAgain = time.Minute

// Sweep runs a batch of at most limit rows in a transaction of its own, and returns how many it was. batch gets the time at
// which it begins, and calls saw with that of each row.
func (d *Database) Sweep(
	ctx context.Context, p *SweepCursor, limit int, batch func(q Querier, from int64, saw func(at int64)) error,
) (n int, err error) {
	from, latest := p.next(), int64(0)
	err = d.InTx(ctx, func(q Querier) error {
		n, latest = 0, from
		return batch(q, from, func(at int64) { n, latest = n+1, max(latest, at) })
	})
	if err != nil {
		return 0, err
	}
	p.ended(n == limit, latest)
	return n, nil
}

// Forget is Sweep by one statement, which returns the times of the rows that it has dropped. Its arguments are limit,
// window, the time at which it begins, and args.
func (d *Database) Forget(
	ctx context.Context, p *SweepCursor, name Statement, limit int, w store.Window, args ...any,
) (n int, err error) {
	return d.Sweep(ctx, p, limit, func(q Querier, from int64, saw func(at int64)) error {
		return d.Each(ctx, q, name, func(scan func(...any) error) error {
			var at int64
			err := scan(&at)
			saw(at)
			return err
		}, append([]any{limit, Micros(w.From), Latest(w), from}, args...)...)
	})
}

func (p *SweepCursor) next() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.at == 0 || now.Sub(p.begun) >= beginAgain {
		p.at, p.begun = 0, now
	}
	return p.at
}

// ended notes the latest time of a batch. Behind one that was not full there is nothing.
func (p *SweepCursor) ended(full bool, latest int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at = latest; !full {
		p.at = 0
	}
}
