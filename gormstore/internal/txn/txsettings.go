package txn

import (
	"context"

	"github.com/auth19/idem/gormstore/internal/dialect"
)

// A handler may change the settings of its transaction, with SET LOCAL ROLE for a tenant's rows for instance. What the
// library writes at the end needs the settings of the begin.
//
// The transaction's first statement reads synchronous_commit. It ignores "off", which an earlier user may have left on the
// connection. The last statement restores it: see mark.go.
//
// The role, the search path, the style of dates and the encoding are read before the first statement that may change them,
// as one with an unknown function may, and restored by statements of their own: a handler that has none costs nothing.
// Where a trigger or a view changes the role unseen, the last statement fails, and everything is rolled back. Where one
// changes the style of dates, the answer of COMMIT cannot be read, and is read back.

// Settings are the other settings that the library's statements depend on.
type Settings struct{ session, role, searchPath, dates, encoding string }

// saveSettings reads the settings before the first statement that may change them.
func (c *Conn) saveSettings(ctx context.Context) error {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	if c.settings != nil {
		return nil
	}
	var s Settings
	ctx, over := c.within(ctx)
	defer over()
	err := c.db.QueryRow(ctx, c.SQL, readSettings).Scan(&s.session, &s.role, &s.searchPath, &s.dates, &s.encoding)
	if err == nil && s != (Settings{}) { // else there are none
		c.settings = &s
	}
	c.failures.note(c.db.Dialect, err)
	return err
}

// SavedSettings returns the settings that saveSettings has read; nil if no statement may have changed them.
func (c *Conn) SavedSettings() *Settings {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	return c.settings
}

// restoreSettings restores the settings that a handler may have changed.
func (c *Conn) restoreSettings(ctx context.Context) error {
	s := c.SavedSettings()
	if s == nil {
		return nil
	}
	// Names and routes are text. pgx refuses arguments in the simple protocol in any encoding but UTF8.
	if _, err := c.SQL.ExecContext(ctx, "SET LOCAL client_encoding = "+dialect.Quote(s.encoding)); err != nil {
		return err
	}
	_, err := c.db.Exec(ctx, c.SQL, setSettings, s.session, s.role, s.searchPath, s.dates)
	return err
}
