package gormstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/pgtest"
)

// The COMMIT of a step is read back, and what is there is another's: an attempt has taken over and done the step itself,
// or it has begun and no more, or the step is another operation's.
//
// CONTRACT
func TestReadBackOfAStep(t *testing.T) {
	db, err := gorm.Open(pgdriver.Open(pgtest.URL(t)), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, Migrate(t.Context(), db))
	s, err := New(db)
	require.NoError(t, err)

	win := func(c core.Claim) core.Ticket {
		claimed, err := s.Claim(t.Context(), c)
		require.NoError(t, err)
		require.True(t, claimed.Won)
		return claimed.Record.Ticket
	}
	c := core.Claim{ID: core.ID{1}, Owner: core.Owner{1}, Recovery: core.Resume, Lease: time.Second, Deadline: time.Minute}
	step := core.StepRecord{Name: "book", Kind: core.DatabaseStep}
	committed := func(ticket core.Ticket) bool {
		there, err := result{ticket, step}.committed(t.Context(), s, s.pool)
		require.NoError(t, err)
		return there
	}
	first := win(c)
	require.False(t, committed(first))
	require.NoError(t, s.Renew(t.Context(), first, 0))
	c.Owner = core.Owner{2}
	second := win(c)
	_, err = s.StartStep(t.Context(), second, step)
	require.NoError(t, err)
	require.False(t, committed(second), "begun, and no more")
	step.Result = []byte("1")
	require.NoError(t, s.FinishStep(t.Context(), second, step))
	require.True(t, committed(second))
	require.False(t, committed(first), "another attempt has done it")

	other := c
	other.ID, other.Owner = core.ID{2}, core.Owner{3}
	third := win(other)
	require.False(t, committed(third), "another operation has done it")
	elsewhere := core.StepRecord{Name: "charge", Kind: core.DatabaseStep}
	there, err := result{second, elsewhere}.committed(t.Context(), s, s.pool)
	require.NoError(t, err)
	require.False(t, there, "another step")
}
