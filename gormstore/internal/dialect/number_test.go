package dialect

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

type serverError struct {
	Number   uint16
	SQLState [5]byte
}

func (*serverError) Error() string { return "x" }

type wrapped struct{ *serverError }

func (wrapped) Error() string { return "of the app's" }

// An error of a server is known in an error of the app's, which may also have none.
//
// CONTRACT X-0
func TestNumber(t *testing.T) {
	deadlock := &serverError{1213, [5]byte([]byte("40001"))}
	require.Equal(t, 1213, Number(fmt.Errorf("x: %w", deadlock)))
	require.Equal(t, 1213, Number(errors.Join(errors.ErrUnsupported, wrapped{deadlock})))
	require.Zero(t, Number(wrapped{}))
	require.Zero(t, Number((*serverError)(nil)))
}
