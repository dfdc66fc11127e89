package txn

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// noteResidue notes that a statement which may leave something on the connection is about to be sent.
func (c *Conn) noteResidue(ctx context.Context, residue []string) {
	for _, what := range residue {
		if slices.Contains(c.db.harmless, what) {
			continue
		}
		c.leaves.Store(true)
		if _, warned := c.db.warnedOf.LoadOrStore(what, true); !warned {
			c.db.Gorm.Logger.Warn(ctx, "idem: gormstore: the connection of each attempt, step or message that sends %s is closed "+
				"afterwards, because something may be left on it; if it is a function that leaves nothing, name it in "+
				"gormstore.HarmlessFunctions", what)
		}
	}
}

// giveBack gives the connection back to the pool. If something may have been left on it, the next user gets another one.
func (c *Conn) giveBack() {
	switch {
	case c.stuck.Load() > 0:
		c.closeBelow()
	case c.leaves.Load():
		c.discard()
	default:
		_ = c.SQL.Close()
	}
}

// rollback ends the transaction on the connection, if there is one, and gives the connection back.
func (c *Conn) rollback() {
	if !c.leaves.Load() {
		Rollback(c.SQL)
		return
	}
	ctx, cancel := Ending()
	defer cancel()
	_, _ = c.SQL.ExecContext(ctx, "ROLLBACK") // at once: the server may notice late that the client is gone
	c.discard()
}

// discard closes the connection, also where a pgxpool is below: that would give it to its next user.
func (c *Conn) discard() {
	c.closeBelow()
	Discard(c.SQL)
}

// closeBelow closes the pgx connection below.
func (c *Conn) closeBelow() {
	ctx, cancel := Ending()
	defer cancel()
	_, _ = onPgx(c, func(below *pgx.Conn) (any, error) { return nil, below.Close(ctx) })
}
