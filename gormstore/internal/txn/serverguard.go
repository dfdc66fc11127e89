package txn

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// RoleGuards are those of the role or the connection, which end a transaction whose process or host is gone, in
// milliseconds; 0: none.
type RoleGuards struct {
	Idle, TCP, Check int64
	NoCheck          bool // the server cannot check that its client is still connected (before PostgreSQL 14)
}

// The library's own guards.
const (
	tcpGuard       = 10_000 // ms
	checkGuard     = 500
	mostCheckGuard = 5_000 // of the role's own
)

// ProbeGuards finds out once what the server can do, and what the role has.
func (d *Database) ProbeGuards(ctx context.Context, c *sql.Conn) error {
	if d.RoleGuards.Load() != nil {
		return nil
	}
	var g RoleGuards
	if _, err := d.Exec(ctx, c, askForCheck); err != nil {
		g.NoCheck = slices.Contains([]string{"42704", "22023", "42501"}, SQLState(err))
		if !g.NoCheck { // else the parameter is unknown, or not for this system, or not for this user
			return err
		}
	}
	if err := d.QueryRow(ctx, c, readGuards).Scan(&g.Idle, &g.TCP, &g.Check); err != nil {
		return err
	}
	d.RoleGuards.Store(&g)
	return nil
}

// Guards are $1 to $3 of begun and lockFirst: how long the server lets the transaction do nothing, and a network swallow
// what it sends, and how often it looks after its client. Where the role has a stricter one, that stands.
func (d *Database) Guards(deadline time.Duration) []any {
	g := d.RoleGuards.Load()
	stricter := func(own, roles int64) int64 {
		if roles > 0 {
			return min(own, roles)
		}
		return own
	}
	args := append(make([]any, 0, 6), stricter(max(deadline, time.Second).Milliseconds(), g.Idle), stricter(tcpGuard, g.TCP))
	switch {
	case g.NoCheck:
		return append(args, nil)
	case g.Check > 0 && g.Check <= mostCheckGuard:
		return append(args, g.Check)
	}
	return append(args, checkGuard)
}

// BeginGuarded opens a transaction that the server ends by itself when its process or host is gone, or when it does nothing
// for longer than idle, and reads its mark. A setting of the role or the connection that guards as well stays, and costs
// nothing. lock is a key's lock to wait for, nil for none. more comes in the same message.
func (d *Database) BeginGuarded(
	ctx context.Context, own *sql.Conn, idle time.Duration, m *Mark, lock any, more ...Call,
) error {
	first, err := d.first(ctx, own, idle, m, lock)
	if err != nil {
		return err
	}
	return Ask(ctx, own, d.Opening(own, m, append([]Call{first}, more...)...)...)
}

// first is the first call of a transaction, which guards it and reads its mark.
func (d *Database) first(ctx context.Context, own *sql.Conn, idle time.Duration, m *Mark, lock any) (Call, error) {
	if err := d.ProbeGuards(ctx, own); err != nil {
		return Call{}, err
	}
	return d.CallOf(ctx, own, begun, m.Targets(), append(d.Guards(idle), lock)...)
}

// TimeLeft is how long ctx still allows; the default deadline where it has none.
func TimeLeft(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return store.DefaultDeadline
}

// Opening are the calls that begin a transaction.
func (d *Database) Opening(own *sql.Conn, m *Mark, first ...Call) []Call {
	return d.opening(own, m, d.Dialect.Begin, first...)
}

// opening are the calls that begin a transaction. The library's savepoint is its mark, or stands in for the transaction's
// status where the driver does not show that: see Tx.RollbackOurs. A text without parameters may have several statements.
func (d *Database) opening(own *sql.Conn, m *Mark, begin string, first ...Call) []Call {
	if Status(own) == Unknown {
		between := "; "
		if d.Dialect.Bind != nil { // its driver takes one statement in a text
			between = ";\n"
		}
		begin += between + m.set()
	}
	return append(append(make([]Call, 0, 5), Call{Text: begin}), first...)
}
