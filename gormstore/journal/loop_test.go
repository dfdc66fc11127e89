package journal_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// plannedRemittances are n rows of the example, each with its intent.
func plannedRemittances(t *testing.T, db *gorm.DB, bank string, n int) (s remittances, status func(id int) int) {
	t.Helper()
	require.NoError(t, db.AutoMigrate(&Remittance{}))
	s = newRemittances(db, bank, http.DefaultTransport)
	require.NoError(t, db.Transaction(func(tx *gorm.DB) error {
		for range n {
			row := Remittance{Amount: "12.50"}
			require.NoError(t, tx.Create(&row).Error)
			require.NoError(t, s.journal.Plan(tx, fmt.Sprintf("remittance/%d", row.ID)))
		}
		return nil
	}))
	return s, func(id int) int {
		var row Remittance
		require.NoError(t, db.Take(&row, id).Error)
		return row.Status
	}
}

// The loop of the example keeps what a fresh token will get through, and an intent that fails does not stop the others.
//
// CONTRACT C-4, C-6
func TestLoopOfTheExample(t *testing.T) {
	db := database(t)
	expired := true
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if expired {
			w.Header().Set(wire.HeaderProblem, string(core.CodeUnauthenticated))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set(wire.HeaderResult, wire.ResultCreated)
		w.WriteHeader(http.StatusCreated)
	}))
	defer bank.Close()
	s, status := plannedRemittances(t, db, bank.URL, 102)
	_, err := s.journal.Begin(t.Context(),
		intents.Entry{Intent: "remittance/1", Command: store.CommandHash{Version: 1, Sum: [32]byte{1}}})
	require.NoError(t, err)

	require.ErrorContains(t, s.send(t.Context()), "remittance/2: 401")
	pending, err := s.journal.Pending(t.Context(), "", 1000)
	require.NoError(t, err)
	require.Len(t, pending, 102, "none has ended")
	require.Zero(t, status(2))

	expired = false
	require.ErrorIs(t, s.send(t.Context()), idemclient.ErrKeyReused)
	pending, err = s.journal.Pending(t.Context(), "", 1000)
	require.NoError(t, err)
	require.Len(t, pending, 1, "what another command has taken")
	require.Equal(t, "remittance/1", pending[0].Intent)
	require.Equal(t, http.StatusCreated, status(2))
	require.Equal(t, http.StatusCreated, status(102), "on the second page")
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// Two processes send an intent at once. The first is refused, which frees the key, and writes its row; the second pays. A
// person must hear of it.
//
// CONTRACT C-6
func TestLoopsOfTheExampleAtOnce(t *testing.T) {
	for _, refusesFirst := range []bool{true, false} {
		db := database(t)
		idem, runs := parking(t), 0
		bank := httptest.NewServer(guarded(idem, func(w http.ResponseWriter, r *http.Request) {
			if runs++; runs == 1 && refusesFirst {
				core.NotApplied(r.Context())
				w.WriteHeader(http.StatusUnprocessableEntity)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}))
		planned, status := plannedRemittances(t, db, bank.URL, 1)
		asked, ended, result := make(chan struct{}), make(chan struct{}), make(chan error)
		second := newRemittances(db, bank.URL, network(func(r *http.Request) (*http.Response, error) {
			close(asked)
			<-ended
			return http.DefaultTransport.RoundTrip(r)
		}))
		first := newRemittances(db, bank.URL, network(func(r *http.Request) (*http.Response, error) {
			go func() { result <- second.send(context.WithoutCancel(t.Context())) }()
			<-asked
			return http.DefaultTransport.RoundTrip(r)
		}))
		require.NoError(t, first.send(t.Context()))
		close(ended)
		if err := <-result; refusesFirst {
			require.ErrorContains(t, err, "ALARM: remittance/1: the bank has paid, and the row says 422")
			require.Equal(t, http.StatusUnprocessableEntity, status(1))
		} else {
			require.NoError(t, err)
			require.Equal(t, http.StatusCreated, status(1))
			require.Equal(t, 1, runs)
		}
		require.NoError(t, planned.sendOne(t.Context(), "remittance/1"), "it has ended")
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		bank.Close()
	}
}

// A process has its command carried out, and loses the answer, while another one ends the intent with a refusal: the bank
// has freed the key.
//
// CONTRACT C-4, C-6
func TestLoopWhoseAnswerIsLost(t *testing.T) {
	db := database(t)
	idem, runs := parking(t), 0
	bank := httptest.NewServer(guarded(idem, func(w http.ResponseWriter, r *http.Request) {
		if runs++; runs == 1 {
			core.NotApplied(r.Context())
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		bank.Close()
	})
	_, status := plannedRemittances(t, db, bank.URL, 1)
	asked, ended, result := make(chan struct{}), make(chan struct{}), make(chan error)
	ctx, giveUp := context.WithCancel(t.Context())
	second := newRemittances(db, bank.URL, network(func(r *http.Request) (*http.Response, error) {
		close(asked)
		<-ended
		if res, err := http.DefaultTransport.RoundTrip(r); err == nil { // 201
			_ = res.Body.Close()
		}
		giveUp()
		return nil, errors.New("the connection broke")
	}))
	first := newRemittances(db, bank.URL, network(func(r *http.Request) (*http.Response, error) {
		go func() { result <- second.sendOne(ctx, "remittance/1") }()
		<-asked
		return http.DefaultTransport.RoundTrip(r)
	}))
	require.NoError(t, first.send(t.Context()))
	close(ended)
	require.ErrorContains(t, <-result, "ALARM: remittance/1: the bank may have paid, and the row says 422")
	require.Equal(t, 2, runs)
	require.Equal(t, http.StatusUnprocessableEntity, status(1))
}
