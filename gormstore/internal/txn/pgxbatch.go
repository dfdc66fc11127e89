package txn

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SendBatch implements PgxDBTX. If one text of the batch is refused, nothing of it is sent.
func (p pgxTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	r := &pgxBatch{queue: b.QueuedQueries}
	r.failed = p.sendBatch(ctx, r)
	return r
}

func (p pgxTx) sendBatch(ctx context.Context, r *pgxBatch) error {
	var own pgx.Batch // without the handler's functions, which run when the handler reads
	texts := make([]string, 0, len(r.queue))
	for _, queued := range r.queue {
		query, args, err := rewritten(ctx, queued.SQL, queued.Arguments)
		if err != nil {
			return err
		}
		own.Queue(query, args...)
		texts = append(texts, query)
	}
	return p.send(ctx, texts, &r.pgxTurn, func(ctx context.Context, below *pgx.Conn) (unread, error) {
		r.results = below.SendBatch(ctx, &own)
		return batchUnread{r}, nil
	})
}

// pgxBatch are the results of a batch as the handler gets them.
type pgxBatch struct {
	pgxTurn

	queue   []*pgx.QueuedQuery // those whose result was not read
	results pgx.BatchResults   // nil: nothing was sent
	failed  error              // the first error
	last    pgx.Rows           // given to the handler; an error may come while they are read
	over    bool               // closed by the handler
}

var _ pgx.BatchResults = (*pgxBatch)(nil)

// errNoResult: more results are read than were queued.
var errNoResult = errors.New("idem: gormstore: PgxTx: the batch has no more results")

// next reads the next result with fn.
func (b *pgxBatch) next(fn func() error) (err error) {
	if b.results == nil || b.over || len(b.queue) == 0 {
		return cmp.Or(b.failure(), errNoResult)
	}
	b.queue = b.queue[1:]
	switch shut := b.read(func() { err = b.note(fn()) }); {
	case errors.Is(shut, errClosed):
		return b.conn.readOn()
	case shut != nil:
		return shut
	}
	return err
}

// failure is the first error. The end of the attempt may note one meanwhile.
func (b *pgxBatch) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// note remembers the first error, also of rows; b.mu is held.
func (b *pgxBatch) note(err error) error {
	if b.last != nil {
		b.failed = cmp.Or(b.failed, b.last.Err())
	}
	b.failed = cmp.Or(b.failed, err)
	return err
}

// Exec implements [pgx.BatchResults].
func (b *pgxBatch) Exec() (tag pgconn.CommandTag, err error) {
	err = b.next(func() (err error) { tag, err = b.results.Exec(); return err })
	return tag, err
}

// Query implements [pgx.BatchResults].
func (b *pgxBatch) Query() (pgx.Rows, error) {
	rows := &pgxRows{turn: &b.pgxTurn, inBatch: true}
	rows.err = b.next(func() (err error) {
		rows.rows, err = b.results.Query()
		_ = b.note(nil)
		b.last = rows.rows
		return err
	})
	return rows, rows.err
}

// QueryRow implements [pgx.BatchResults].
func (b *pgxBatch) QueryRow() pgx.Row {
	rows, _ := b.Query() // it has the error
	return pgxRow{rows}
}

// Tx implements [pgx.BatchResults], which has it since pgx v5.12. It is nil: a batch is in the attempt's transaction.
func (b *pgxBatch) Tx() pgx.Tx { return nil }

// Close implements [pgx.BatchResults]: it runs the functions of the queries whose result was not read, and reads the rest.
func (b *pgxBatch) Close() error {
	if b.results == nil || b.over {
		return b.failure()
	}
	if b.isClosed() && !slices.ContainsFunc(b.queue, func(q *pgx.QueuedQuery) bool { return q.Fn != nil }) {
		b.over = true // nobody has read on: the library has read the rest
		return b.failure()
	}
	var err error
	for err == nil && len(b.queue) > 0 {
		if fn := b.queue[0].Fn; fn != nil {
			err = fn(b)
		} else {
			_, err = b.Exec()
		}
	}
	b.over = true
	if shut := b.read(func() { _ = b.note(b.results.Close()) }); shut != nil {
		return shut
	}
	b.ends()
	return cmp.Or(err, b.failure())
}

// batchUnread is a batch as the library closes it.
type batchUnread struct{ *pgxBatch }

// Close implements [unread].
func (b batchUnread) Close() error {
	return b.close(func() error { return b.note(b.results.Close()) })
}

// Err implements [unread].
func (b batchUnread) Err() error { return b.failure() }
