package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// resumable: Resume attempts whose lease has run out, by pages, and nothing else.
//
// CONTRACT X-2, T-4
func resumable(t *testing.T, s *fixture) {
	stepper := s.Store.(core.Stepper)
	want := make([]core.ID, 0, 3)
	for range 3 {
		c := s.command(core.Resume)
		s.win(t, c)
		want = append(want, c.ID)
	}
	parked := s.command(core.Resume)
	require.NoError(t, s.Store.Park(s.ctx, s.win(t, parked).Ticket))
	s.win(t, s.command(core.Park))
	page, err := stepper.Resumable(s.ctx, nil, core.ID{}, 10)
	require.NoError(t, err)
	require.Empty(t, page, "their owners are alive")

	s.Advance(t, 2*lease)
	s.win(t, s.command(core.Resume)) // alive
	var got []core.ID
	for last := (core.ID{}); ; last = got[len(got)-1] {
		page, err := stepper.Resumable(s.ctx, nil, last, 2)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			require.Equal(t, core.Running, r.State())
			got = append(got, r.ID)
		}
	}
	require.ElementsMatch(t, want, got)
}
