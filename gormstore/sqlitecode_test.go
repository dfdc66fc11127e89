package gormstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	dialect "github.com/auth19/idem/gormstore/internal/dialect/sqlite"
)

// Errors as the drivers of SQLite make them, with extended codes.
type (
	codeOfType  uint8
	withMethod  struct{ code codeOfType }
	withInt     struct{ code int }
	withField   struct{ Code int32 }
	bareCode    uint16
	withoutCode struct{ Codes int }
)

func (e *withMethod) Error() string     { return "" }
func (e *withMethod) Code() codeOfType  { return e.code }
func (e *withInt) Error() string        { return "" }
func (e *withInt) Code() int            { return e.code }
func (e withField) Error() string       { return "" }
func (e bareCode) Error() string        { return "" }
func (e *withoutCode) Error() string    { return "" }
func (e *withoutCode) Code(int) (_ int) { return 19 }

// CONTRACT X-0
func TestCodeOfSQLite(t *testing.T) {
	t.Parallel()
	const unique, missing = 2067, 1 // SQLITE_CONSTRAINT_UNIQUE, SQLITE_ERROR
	for _, err := range []error{&withMethod{19}, &withInt{unique}, withField{unique}, &withField{19}, bareCode(unique)} {
		require.True(t, dialect.Dialect.OfCommand(fmt.Errorf("insert: %w", err)), "%#v", err)
		require.NotEmpty(t, dialect.Dialect.Class(err))
	}
	for _, err := range []error{&withMethod{missing}, &withInt{missing}, withField{missing}, bareCode(missing)} {
		require.False(t, dialect.Dialect.OfCommand(err), "%#v", err)
		require.NotEmpty(t, dialect.Dialect.Class(err))
	}
	for _, err := range []error{errors.New("an argument cannot be converted"), &withoutCode{19}} {
		require.Empty(t, dialect.Dialect.Class(err), "%#v", err)
	}
}
