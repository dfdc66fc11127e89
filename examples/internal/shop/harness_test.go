package shop

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/examples/internal/database"
	"github.com/auth19/idem/examples/internal/provider"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/mariatest"
	"github.com/auth19/idem/internal/pgtest"
)

// harness runs functions of the shop in attempts, as a handler would.
type harness struct {
	*Shop
	t    *testing.T
	idem *core.Module
}

const (
	rollback = "/rollback"
	resume   = "/resume"
	park     = "/park"
)

// onEach runs a test on each database.
func onEach(t *testing.T, test func(t *testing.T, h *harness)) {
	t.Run("sqlite", func(t *testing.T) {
		test(t, newHarness(t, "sqlite:"+filepath.Join(t.TempDir(), "shop.db")))
	})
	t.Run("postgres", func(t *testing.T) {
		test(t, newHarness(t, pgtest.URL(t)))
	})
	t.Run("mariadb", func(t *testing.T) { test(t, newHarness(t, mariatest.URL(t))) })
}

func newHarness(t *testing.T, url string) *harness {
	address, err := database.Parse(url)
	require.NoError(t, err)
	open := func(address database.Address, connections int) *gorm.DB {
		db, err := address.Open(t.Context(), connections)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, database.Close(db)) })
		return db
	}
	db, ledger := open(address, 12), open(address.Provider(), 1)
	store, err := gormstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, database.Migrate(t.Context(), db, Models()...))
	require.NoError(t, database.Migrate(t.Context(), ledger, provider.Models()...))
	idem, err := core.New(core.Config{Store: store, ClaimTimeout: 20 * time.Second, Routes: core.Routes{
		"POST " + rollback: {Recovery: core.Rollback},
		"POST " + resume:   {Recovery: core.Resume},
		"POST " + park:     {Recovery: core.Park},
	}})
	require.NoError(t, err)
	return &harness{Shop: New(db, provider.New(ledger), false), t: t, idem: idem}
}

// attempt runs fn in an attempt for the principal and key. Its error becomes a 409, or a 500 where it is a failure. It
// returns fn's error, or core.ErrAborted where fn did not run.
func (h *harness) attempt(route string, p core.Principal, key string, fn func(ctx context.Context) error) error {
	r := httptest.NewRequest(http.MethodPost, route, strings.NewReader(`{}`)).WithContext(context.Background())
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Content-Type", "application/json")
	r, reply := h.idem.Admit(r, route, p)
	if reply != nil {
		return core.ErrAborted
	}
	attempt, reply := h.idem.Begin(r, route, p)
	if reply != nil {
		return core.ErrAborted
	}
	w := attempt.Capture(httptest.NewRecorder())
	err := fn(attempt.Request().Context())
	status := http.StatusCreated
	switch {
	case err == ErrSimulated || err == ErrUnavailable || err == ErrNoAnswer: //nolint:errorlint // exactly these
		status = http.StatusInternalServerError
	case err != nil:
		status = http.StatusConflict
	}
	w.WriteHeader(status)
	attempt.Finish()
	return err
}

func (h *harness) kinds() []string {
	lines, err := h.Ledger(h.t.Context())
	require.NoError(h.t, err)
	kinds := []string{}
	for _, line := range lines {
		kinds = append(kinds, line.Kind+" "+line.Amount+" "+line.Principal)
	}
	return kinds
}

var (
	anna   = core.Principal{Issuer: "https://issuer.example", Subject: "anna", Roles: []string{RoleCustomer}}
	bert   = core.Principal{Issuer: "https://issuer.example", Subject: "bert", Roles: []string{RoleCustomer}}
	seller = core.Principal{Issuer: "https://issuer.example", Subject: "sam", Roles: []string{RoleSeller}}
)
