package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// spares are emptied databases of the shared server, for the next tests of this process. To create and to drop a database
// costs four times as much as to empty one: DROP DATABASE makes a checkpoint of the whole server, on which all tests wait.
var spares struct {
	sync.Mutex
	names []string
}

// takeSpare gives a spare database a new name, so that nothing reaches it by the old one. It reports false if there is none.
func takeSpare(ctx context.Context, admin *url.URL, name string) bool {
	spares.Lock()
	last := len(spares.names) - 1
	if last < 0 {
		spares.Unlock()
		return false
	}
	spare := spares.names[last]
	spares.names = spares.names[:last]
	spares.Unlock()
	// It waits until the connections to the database are gone.
	return execute(ctx, admin, nil, "ALTER DATABASE "+quote(spare)+" RENAME TO "+quote(name)) == nil
}

// emptied are the statements that empty a database. The schema public is as it is in template0.
const emptied = `SET lock_timeout = '5s';
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
DROP SCHEMA public CASCADE;
CREATE SCHEMA public;
DO $$ BEGIN
	IF current_setting('server_version_num')::int < 150000 THEN
		GRANT ALL ON SCHEMA public TO PUBLIC;
	ELSE
		ALTER SCHEMA public OWNER TO pg_database_owner;
		GRANT USAGE ON SCHEMA public TO PUBLIC;
	END IF;
END $$`

// isEmpty asks whether a database has nothing that template0 has not: no object of its own, no setting, no grant. The
// objects of a new database have numbers below 16384.
const isEmpty = `SELECT d.datacl IS NULL
AND NOT EXISTS (SELECT FROM pg_db_role_setting WHERE setdatabase = d.oid)
AND NOT EXISTS (SELECT FROM pg_shdepend WHERE dbid = d.oid)
AND NOT EXISTS (SELECT FROM pg_prepared_xacts WHERE database = d.datname)
AND NOT EXISTS (SELECT FROM pg_replication_slots WHERE database = d.datname)
AND NOT EXISTS (SELECT FROM pg_subscription WHERE subdbid = d.oid)
AND NOT EXISTS (SELECT FROM pg_publication)
AND NOT EXISTS (SELECT FROM pg_event_trigger)
AND NOT EXISTS (SELECT FROM pg_default_acl)
AND NOT EXISTS (SELECT FROM pg_largeobject_metadata)
AND NOT EXISTS (SELECT FROM pg_foreign_data_wrapper)
AND NOT EXISTS (SELECT FROM pg_namespace WHERE oid >= 16384 AND nspname <> 'public' AND nspname !~ '^pg_(toast_)?temp_')
AND NOT EXISTS (SELECT FROM pg_class WHERE oid >= 16384)
AND NOT EXISTS (SELECT FROM pg_type WHERE oid >= 16384)
AND NOT EXISTS (SELECT FROM pg_proc WHERE oid >= 16384)
AND NOT EXISTS (SELECT FROM pg_operator WHERE oid >= 16384)
AND NOT EXISTS (SELECT FROM pg_cast WHERE oid >= 16384)
AND NOT EXISTS (SELECT FROM pg_language WHERE oid >= 16384)
AND NOT EXISTS (SELECT FROM pg_extension WHERE oid >= 16384)
FROM pg_database d WHERE d.datname = current_database()`

// spare empties a database that its test no longer needs, and keeps it for another test. The error says why it cannot be
// kept: it has something that a new database has not, for example a schema or a setting.
func spare(ctx context.Context, database *url.URL, name string) error {
	config, err := pgconn.ParseConfig(database.String())
	if err != nil {
		return err
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	// Two transactions: what the first one has dropped is gone for the second.
	if _, err := conn.Exec(ctx, emptied).ReadAll(); err != nil {
		return err
	}
	results, err := conn.Exec(ctx, isEmpty).ReadAll()
	if err != nil {
		return err
	}
	if string(results[0].Rows[0][0]) != "t" {
		return fmt.Errorf("%s is not like a new database", name)
	}
	spares.Lock()
	defer spares.Unlock()
	spares.names = append(spares.names, name)
	return nil
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
