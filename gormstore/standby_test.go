package gormstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemtest"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// twoHosts is an app's pool whose address names a primary and its standby, without target_session_attrs: where the primary
// takes no connection for a moment, the standby does. Its replay is behind.
type twoHosts struct {
	primary, db *gorm.DB     // db: the app's, with a new connection for each statement or transaction
	dials       atomic.Int64 // of db, since the plan was made
	away        atomic.Pointer[func(dial int64) bool]
}

// newTwoHosts is such a pool. What is written from now on, the standby has, but does not show.
func newTwoHosts(t *testing.T) *twoHosts {
	t.Helper()
	server := pgtest.Own(t)
	h := &twoHosts{primary: openPostgres(t, server.URL(), 8)}
	migrate(t, h.primary)
	require.NoError(t, h.primary.AutoMigrate(&charge{}))
	standby := server.Standby()
	behind := openPostgres(t, standby.URL(), 1)
	eventually(t, "the standby has the tables", func() bool {
		return query[bool](t, behind, "SELECT to_regclass('charges') IS NOT NULL")
	})
	execute(t, behind, "SELECT pg_wal_replay_pause()")
	if query[int](t, behind, "SELECT current_setting('server_version_num')::int") >= 14_00_00 {
		eventually(t, "it replays nothing more", func() bool {
			return query[string](t, behind, "SELECT pg_get_wal_replay_pause_state()") == "paused"
		})
	}
	cfg := try(pgx.ParseConfig(server.URL())).ok(t)
	other := try(pgx.ParseConfig(standby.URL())).ok(t)
	h.plan(func(int64) bool { return false })
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if (*h.away.Load())(h.dials.Add(1)) {
			address = net.JoinHostPort(other.Host, fmt.Sprint(other.Port))
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	pool := stdlib.OpenDB(*cfg)
	h.db = openDB(t, postgres.New(postgres.Config{Conn: pool}), 8)
	pool.SetMaxIdleConns(0)
	return h
}

// plan says for which connections to come the primary is away; the first is 1.
func (h *twoHosts) plan(away func(dial int64) bool) {
	h.dials.Store(0)
	h.away.Store(&away)
}

// A question that decides something is never answered by a standby that is behind, at whichever of its statements the
// connection leads there. It is asked again over another connection; where all lead there, the answer is that the store is
// not available.
//
// CONTRACT F-8
func TestNoQuestionIsAnsweredByAStandby(t *testing.T) {
	t.Parallel()
	h := newTwoHosts(t)
	on, app := newStore(t, h.primary), newStore(t, h.db)
	box, intents := newInbox(t, h.db, stockInbox), newJournal(t, h.db)
	require.NoError(t, errors.Join(app.Validate(t.Context()), box.Validate(t.Context()), intents.Validate(t.Context())))

	done, open := command(store.Park), command(store.Park)
	lapsed, held := command(store.Resume), command(store.Rollback)
	counted := command(store.Park)
	open.Scope = store.Scope{7}
	ticket := answered(t, on, done)
	require.NoError(t, on.End(t.Context(), won(t, on, open), store.Ending{State: store.Unknown}))
	won(t, on, counted)
	lapsed.Lease = time.Millisecond
	resumed(t, on, lapsed, store.Seal{Start: &store.StepRecord{Name: "charge", Kind: store.ProviderStep}})
	begin(t, on, held)
	ref := store.Ref{Name: "order", Value: "o-7"}
	require.NoError(t, on.Refer(t.Context(), done.ID, done.Realm, ref))
	require.NoError(t, err2(on.KeepScoping(t.Context(), "shop", "first")))
	service, now := make([]byte, 8), time.Now()
	window := store.Window{From: now.Add(-time.Hour), To: now.Add(time.Hour)}
	require.NoError(t, err2(on.KeepAge(t.Context(), service, "POST /v1/payments", time.Hour, window)))
	entry := entryOf(t, "order-7", 1)
	require.NoError(t, err2(newJournal(t, h.primary).Begin(t.Context(), entry)))
	processed := message()
	require.NoError(t, newInbox(t, h.primary, stockInbox).Process(t.Context(), processed, func(*gorm.DB) error { return nil }))

	inAttempt := idemtest.Context(t.Context(), idemtest.Config{Principal: alice, Key: "k-1"})
	booked := charge{Reference: "o-7", Amount: 5}
	require.NoError(t, err2(gormstore.CreateOnce(h.primary.WithContext(inAttempt), &booked)))

	ctx := t.Context()
	told := func(answer any, err error) (string, error) { return fmt.Sprint(answer), err }
	states := func(recs []store.Record, err error) (string, error) {
		var all []string
		for _, rec := range recs {
			all = append(all, rec.ID.String(), rec.State().String())
		}
		return strings.Join(all, " "), err
	}
	questions := map[string]func() (string, error){
		"steps": func() (string, error) {
			steps, err := app.Steps(ctx, lapsed.ID)
			return fmt.Sprint(len(steps)), err
		},
		"record": func() (string, error) {
			rec, err := app.Find(ctx, done.ID, store.Viewer{All: true})
			return rec.State().String(), err
		},
		"own record": func() (string, error) {
			return told("", app.End(ctx, ticket, store.Ending{State: store.Completed, Answer: paid()}))
		},
		"in flight":  func() (string, error) { return told(app.InFlight(ctx, held.ID)) },
		"open":       func() (string, error) { return told(app.CountOpen(ctx, counted.Scope, 10)) },
		"open steps": func() (string, error) { return told(app.OpenSteps(ctx, nil, 10)) },
		"list":       func() (string, error) { return states(app.List(ctx, store.Query{Unknown: true, Limit: 10})) },
		"count": func() (string, error) {
			counts, err := app.Count(ctx, store.Query{Unknown: true, Limit: 10})
			return fmt.Sprint(len(counts)), err
		},
		"last answered": func() (string, error) {
			rec, err := app.LastAnswered(ctx, nil, done.Method, done.Route)
			return rec.State().String(), err
		},
		"erasure": func() (string, error) {
			page, err := app.Erase(ctx, open.Scope, store.ID{}, 10)
			return fmt.Sprint(len(page.Open)), err
		},
		"near": func() (string, error) {
			return told(app.Near(ctx, nil, store.Near{Last: store.ID{0: 0xff, 31: 0xff}}, 10))
		},
		"references":  func() (string, error) { return told(app.References(ctx, []store.ID{done.ID})) },
		"referred":    func() (string, error) { return told(app.Referred(ctx, store.Query{Refs: []store.Ref{ref}, Limit: 10})) },
		"scoping":     func() (string, error) { return told(app.KeepScoping(ctx, "shop", "second")) },
		"age of keys": func() (string, error) { return told(app.KeepAge(ctx, service, "POST /v1/payments", time.Hour, window)) },
		"settlement": func() (string, error) {
			_, err := app.Settle(ctx, store.Settlement{ID: open.ID, Fence: 7, Who: "olga", Why: "asked"})
			if errors.Is(err, store.ErrStale) {
				return "settled by an operator who has seen another attempt", nil
			}
			return "", err
		},
		"claim": func() (string, error) {
			claimed, err := app.Claim(ctx, again(done))
			return claimed.Record.State().String(), err
		},
		"begin": func() (string, error) {
			_, claimed, err := app.Begin(ctx, again(open))
			return claimed.Record.State().String(), err
		},
		"takeover": func() (string, error) {
			segments, claimed, err := app.Begin(ctx, again(lapsed))
			if segments != nil {
				err = errors.Join(err, segments.Rollback())
			}
			return fmt.Sprint(claimed.Won), err
		},
		"intent": func() (string, error) {
			found, there, err := intents.Find(ctx, entry.Intent)
			return fmt.Sprint(found.Command, there), err
		},
		"pending intents": func() (string, error) {
			pending, err := intents.Pending(ctx, "", 10)
			return fmt.Sprint(len(pending)), err
		},
		"second line": func() (string, error) {
			row := charge{Reference: "o-7"}
			created, err := gormstore.CreateOnce(h.db.WithContext(inAttempt), &row)
			return fmt.Sprint(created, row.Amount), err
		},
		"message": func() (string, error) { return "", box.Process(ctx, processed, never(t)) },
	}
	for name, ask := range questions {
		t.Run(name, func(t *testing.T) {
			h.plan(func(int64) bool { return false })
			try(ask()).ok(t) // what is asked once in a process
			h.plan(func(int64) bool { return false })
			want := try(ask()).ok(t)
			for from := range h.dials.Load() {
				h.plan(func(dial int64) bool { return dial == from+1 })
				got, err := ask()
				if name == "second line" && err != nil { // the app's own statement, which its handler may repeat
					requireNoWrites(t, err)
				} else {
					require.Equal(t, want, try(got, err).ok(t), "connection %d leads to the standby", from+1)
				}
				h.plan(func(dial int64) bool { return dial > from })
				_, err = ask()
				requireNoWrites(t, err, "all connections behind %d lead there", from)
			}
		})
	}

	h.plan(func(int64) bool { return false })
	require.NoError(t, box.Process(ctx, processed, never(t)))
	require.EqualValues(t, 1, h.dials.Load(), "a duplicate: the row and its standby are asked over one connection")
}

func requireNoWrites(t *testing.T, err error, why ...any) {
	t.Helper()
	require.Error(t, err, why...)
	require.True(t, strings.Contains(err.Error(), "takes no writes") || strings.Contains(err.Error(), "25006"), "%v", err)
}

// What an operation has done is asked of the primary before the next attempt goes on, whichever connection of that attempt
// leads to the standby: a charge whose outcome nobody knows is not made again, and rows are not written again.
//
// CONTRACT F-8, X-14
func TestStepsAreNotReadFromAStandby(t *testing.T) {
	t.Parallel()
	h := newTwoHosts(t)
	a := newStepApp(t, newStore(t, h.db))
	charged, never, crash := 0, func(int64) bool { return false }, errors.New("crashed")
	for name, o := range map[string]struct {
		handle func(ctx context.Context, crash error) error
		ends   int
	}{
		"a charge": {ends: http.StatusConflict, handle: func(ctx context.Context, _ error) error {
			return core.CallDo(ctx, "charge", func(context.Context, core.DerivedKey) error {
				charged++
				return crash
			})
		}},
		"rows": {ends: http.StatusCreated, handle: func(ctx context.Context, crash error) error {
			return errors.Join(reserve(ctx, nil), core.Checkpoint(ctx), crash)
		}},
	} {
		for from := range int64(10) {
			key := fmt.Sprintf("%s-%d", name[:1], from)
			post := func(crash error) int {
				return a.as(key, func(ctx context.Context) error { return o.handle(ctx, crash) }).Code
			}
			h.plan(never)
			require.Equal(t, http.StatusInternalServerError, post(crash), key)
			h.plan(func(dial int64) bool { return dial == from/2+1 || from%2 == 1 && dial > from/2 })
			post(nil)
			h.plan(never)
			advance(t, h.primary, time.Hour) // a lease that could not be given back is over
			require.Equal(t, o.ends, post(nil), key)
		}
	}
	require.Equal(t, 10, charged)
	require.Equal(t, 10, countEffects(t, h.primary))
}
