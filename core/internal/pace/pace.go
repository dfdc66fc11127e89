// Package pace makes the batches of a long work as large as the store bears.
package pace

import (
	"context"
	"time"
)

// batchFor is how long a batch should take. Requests may have to wait for as long as a batch takes.
const batchFor = 10 * time.Millisecond

// Pace is how many records the next batch of a long work may touch.
type Pace struct {
	Size int

	before int // the size of the batch before, and how long that took
	took   time.Duration
}

// Next sets the size behind a batch that took so long: between half of its size and twice, at least ten, and at most most.
// Where the batch before was larger and took hardly longer, it is not the records that take the time, and it goes back to
// that size: hardly is less than half of what the records would account for.
func (p *Pace) Next(took time.Duration, most int) {
	size, fallen := p.Size, p.took*time.Duration(p.before+p.Size)/time.Duration(2*max(p.before, 1))
	p.Size = min(max(int(time.Duration(size)*batchFor/max(took, batchFor/2)), size/2, 10), most)
	if 2*p.before >= 3*size && took > max(fallen, batchFor) {
		p.Size = p.before
	}
	p.before, p.took = size, took
}

// Rest waits for d, or until ctx ends.
func Rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
