package provider

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/internal/mariatest"
	"github.com/auth19/idem/internal/pgtest"
)

// onEach runs a test on each database.
func onEach(t *testing.T, test func(t *testing.T, p *Provider)) {
	open := func(t *testing.T, dialector gorm.Dialector, connections int) *Provider {
		db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
		require.NoError(t, err)
		pool, err := db.DB()
		require.NoError(t, err)
		pool.SetMaxOpenConns(connections)
		t.Cleanup(func() { require.NoError(t, pool.Close()) })
		require.NoError(t, db.AutoMigrate(Models()...))
		return New(db)
	}
	t.Run("sqlite", func(t *testing.T) {
		test(t, open(t, sqlite.Open("file:"+filepath.Join(t.TempDir(), "provider.db")), 1))
	})
	t.Run("postgres", func(t *testing.T) {
		test(t, open(t, postgres.Open(pgtest.URL(t)), 8))
	})
	t.Run("mariadb", func(t *testing.T) { test(t, open(t, mysql.Open(mariatest.Address(t)), 8)) })
}

var request = Request{Key: "k1", Amount: "10.00", Currency: "EUR", Method: "pm_ok", Operation: "op1", Principal: "seller-1"}

func TestChargeOncePerKey(t *testing.T) {
	onEach(t, func(t *testing.T, p *Provider) {
		first, err := p.Charge(t.Context(), request)
		require.NoError(t, err)
		again, err := p.Charge(t.Context(), request)
		require.NoError(t, err)
		require.True(t, first.Fresh)
		first.Fresh = false
		require.Equal(t, first, again)

		other := request
		other.Amount = "10.01"
		_, err = p.Charge(t.Context(), other)
		require.ErrorIs(t, err, ErrKeyReused)

		other.Key = "k2"
		second, err := p.Charge(t.Context(), other)
		require.NoError(t, err)
		second.Fresh = false // it is not in the ledger

		charges, err := p.Charges(t.Context())
		require.NoError(t, err)
		require.Equal(t, []Charge{first, second}, charges)
	})
}

func TestSimultaneousChargesWithOneKey(t *testing.T) {
	onEach(t, func(t *testing.T, p *Provider) {
		ids := make([]string, 16)
		var group sync.WaitGroup
		for i := range ids {
			group.Go(func() {
				charge, err := p.Charge(t.Context(), request)
				if err == nil {
					ids[i] = charge.ID
				}
			})
		}
		group.Wait()
		charges, err := p.Charges(t.Context())
		require.NoError(t, err)
		require.Len(t, charges, 1)
		for _, id := range ids {
			require.Equal(t, charges[0].ID, id)
		}
	})
}

func TestKeyIsForgottenAfterTheWindow(t *testing.T) {
	onEach(t, func(t *testing.T, p *Provider) {
		start := time.Now()
		p.now = func() time.Time { return start }
		first, err := p.Charge(t.Context(), request)
		require.NoError(t, err)

		p.now = func() time.Time { return start.Add(Window) }
		again, err := p.Charge(t.Context(), request)
		require.NoError(t, err)
		require.Equal(t, first.ID, again.ID)

		p.now = func() time.Time { return start.Add(Window + 2*time.Second) }
		late, err := p.Charge(t.Context(), request)
		require.NoError(t, err)
		require.NotEqual(t, first.ID, late.ID)
	})
}

func TestDeclinedChargesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, p *Provider) {
		declined := request
		declined.Method = MethodDeclined
		_, err := p.Charge(t.Context(), declined)
		require.ErrorIs(t, err, ErrDeclined)
		charges, err := p.Charges(t.Context())
		require.NoError(t, err)
		require.Empty(t, charges)
	})
}

func TestLostAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, p *Provider) {
		p.LoseAnswers(1)
		_, err := p.Charge(t.Context(), request)
		require.ErrorIs(t, err, ErrAnswerLost)

		charge, err := p.Charge(t.Context(), request)
		require.NoError(t, err)
		charges, err := p.Charges(t.Context())
		require.NoError(t, err)
		require.Equal(t, []Charge{charge}, charges)

		lost := request
		lost.Key, lost.Method = "k2", MethodLost
		_, err = p.Charge(t.Context(), lost)
		require.ErrorIs(t, err, ErrAnswerLost)
		_, err = p.Charge(t.Context(), lost)
		require.NoError(t, err)

		stuck := request
		stuck.Key, stuck.Method = "k3", MethodStuck
		for range 3 {
			_, err = p.Charge(t.Context(), stuck)
			require.ErrorIs(t, err, ErrAnswerLost)
		}
		charges, err = p.Charges(t.Context())
		require.NoError(t, err)
		require.Len(t, charges, 3, "one for each key")
	})
}
