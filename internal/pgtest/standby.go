package pgtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby starts a synchronous standby of the cluster, a server of the same test, and returns when the cluster has it:
// from then on no COMMIT is confirmed that the standby has not on its disk. It takes the place of an earlier standby.
func (c *Cluster) Standby() *Cluster {
	c.t.Helper()
	server, err := newOwnServer()
	if err != nil {
		unavailable(c.t, err)
	}
	if err = server.copyFrom(c.server); err != nil {
		err = errors.Join(fmt.Errorf("pgtest: %w", err), server.remove())
	} else {
		err = server.launch(nil)
	}
	if err != nil {
		removeRoot()
		c.t.Fatal(err)
	}
	standby := &Cluster{t: c.t, server: server}
	c.t.Cleanup(standby.remove)
	c.Exec("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	c.AwaitStandby()
	return standby
}

// AwaitStandby returns when a synchronous standby follows the cluster: after either of them was started again.
func (c *Cluster) AwaitStandby() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), readyWithin)
	defer cancel()
	if err := c.server.awaitStandby(ctx); err != nil {
		c.t.Fatalf("pgtest: no standby follows: %v", err)
	}
}

// Promote makes a standby a primary, and returns when it takes writes. The old primary must be down by then.
func (c *Cluster) Promote() {
	c.t.Helper()
	c.Exec("SELECT pg_promote()")
}

// copyFrom makes the data directory of a standby.
func (s *server) copyFrom(primary *server) error {
	standby := *primary.url
	s.url = &standby
	if err := s.takePort(); err != nil {
		return err
	}
	account, err := serverAccount()
	if err != nil {
		return err
	}
	if err := account.give(s.directory); err != nil {
		return err
	}
	backup, err := s.command("pg_basebackup", "--pgdata="+s.file("data"), "--host="+primary.url.Hostname(),
		"--port="+primary.url.Port(), "--username="+s.url.User.Username(), "--write-recovery-conf", "--checkpoint=fast",
		"--no-sync")
	if err != nil {
		return err
	}
	password, _ := s.url.User.Password()
	backup.Env = append(backup.Env, "PGPASSWORD="+password) // where no other user of this machine reads it
	if output, err := backup.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, output)
	}
	if err := s.configure([]string{"wal_retrieve_retry_interval=100ms"}); err != nil {
		return err
	}
	return writeURL(s.directory, s.url) // so its first start sets nothing up
}

func (s *server) awaitStandby(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.url.String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for there := false; !there; {
		const query = `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')`
		if err := conn.QueryRow(ctx, query).Scan(&there); err != nil {
			return err
		}
		if !there {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}
