package contracttest_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/contracttest"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// An exported suite runs on other people's machines. Where the store is too busy for all that comes at once, nothing is
// wrong with the app; and yet the command has to be carried out in the end, once.
//
// CONTRACT M-6, F-1
func TestAStoreThatIsTooBusy(t *testing.T) {
	for rule, slow := range map[string]bool{"M-6": false, "M-2": true, "M-3": false} {
		t.Run(rule, func(t *testing.T) {
			failure, skip := onABusyStore(t, rule, slow, 40, 30*time.Second, nil)
			require.Empty(t, failure)
			require.Empty(t, skip)
		})
	}
	t.Run("for too long", func(t *testing.T) {
		failure, skip := onABusyStore(t, "M-6", false, 1<<30, time.Millisecond, nil)
		require.Empty(t, failure)
		require.Contains(t, skip, "the store was too busy")
	})
	t.Run("and yet it applies", func(t *testing.T) {
		failure, _ := onABusyStore(t, "M-6", false, 1<<30, time.Millisecond, func(b *bank) { _ = b.book(t.Context()) })
		require.Contains(t, failure, "commands that were applied")
	})
	t.Run("and tells nobody of the first answer", func(t *testing.T) {
		b := inMemory(t)
		b.open(t, nil)
		var told sync.Map
		hides := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rec := httptest.NewRecorder()
				next.ServeHTTP(rec, r)
				if _, again := told.LoadOrStore(r.Header.Get(wire.HeaderKey), true); !again {
					_ = core.NewProblem(core.CodeStoreUnavailable, "").Reply().WriteTo(w)
					return
				}
				_ = (&core.Reply{Status: rec.Code, Header: rec.Header(), Body: rec.Body.Bytes()}).WriteTo(w)
			})
		}
		app := b.app(t, hides(onGin(b)))
		failure, _ := violation(t, app, "M-3", time.Minute)
		require.Contains(t, failure, "Idempotency-Result of a first answer", "send repeats, and gets a replay")
	})
}

// onABusyStore checks a rule on a bank whose store refuses the first claims of each key. refused is called for each of
// them, where it is not nil.
func onABusyStore(t *testing.T, rule string, slow bool, claims int, patience time.Duration, refused func(*bank)) (failure, skip string) {
	t.Helper()
	b := inMemory(t)
	b.store = &busyStore{Operations: b.store, refuse: claims, refused: func() {
		if refused != nil {
			refused(b)
		}
	}}
	b.open(t, func(cfg *core.Config) { delete(cfg.Routes, "POST /v1/transfers") }) // such a store judges no timed keys
	app := b.app(t, onGin(b))
	if slow {
		app.Routes[0].Slow = method("slow")
	}
	return violation(t, app, rule, patience)
}

func violation(t *testing.T, app contracttest.App, rule string, patience time.Duration) (failure, skip string) {
	t.Helper()
	server := httptest.NewServer(app.Handler)
	defer server.Close()
	app.URL, app.Handler = server.URL, nil
	failed, skipped := contracttest.Violations(t, app, contracttest.Try{
		Routes: 1, Rules: []string{rule}, OneRound: true, Patience: patience,
	})
	return strings.Join(slices.Collect(maps.Values(failed)), "\n"), strings.Join(slices.Collect(maps.Values(skipped)), "\n")
}

// busyStore refuses the first claims of each key.
type busyStore struct {
	store.Operations
	refuse  int
	refused func()

	mu   sync.Mutex
	seen map[core.ID]int
}

func (s *busyStore) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	s.mu.Lock()
	if s.seen == nil {
		s.seen = map[core.ID]int{}
	}
	s.seen[c.ID]++
	n := s.seen[c.ID]
	s.mu.Unlock()
	if n <= s.refuse {
		s.refused()
		return store.Claimed{}, fmt.Errorf("claim %d: %w", n, context.DeadlineExceeded)
	}
	return s.Operations.Claim(ctx, c)
}
