package database

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	sqlite3 "modernc.org/sqlite/lib"
)

// IsUnavailable reports whether an error means that the database cannot work now, and not that a statement is wrong. Such
// errors are: no connection, or a broken one; a conflict with another transaction (SQLSTATE class 40); a server that lacks
// resources or stops (08, 53 and 57), MariaDB's numbers for these; an SQLite file that is locked by another writer.
func IsUnavailable(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return slices.Contains([]string{"08", "40", "53", "57"}, server.Code[:min(2, len(server.Code))])
	}
	if server, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return slices.Contains(mysqlUnavailable, server.Number)
	}
	if file, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok {
		return file.Code()&0xff == sqlite3.SQLITE_BUSY
	}
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, io.ErrUnexpectedEOF)
}

// mysqlUnavailable: too many connections, shutdown, disk full, killed, a lock that was not granted, a deadlock.
var mysqlUnavailable = []uint16{1040, 1053, 1021, 1317, 1927, 1205, 1213}
