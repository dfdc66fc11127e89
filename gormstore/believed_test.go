package gormstore

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/internal/pgtest"
)

// An answer was read from a primary that dies then; what is to confirm it comes to the standby that has taken over.
//
// CONTRACT F-2
func TestConfirmAsksTheServerThatWasRead(t *testing.T) {
	t.Parallel()
	st := onEach(t)["postgres"]
	db := st.gorm
	var started time.Time
	require.NoError(t, db.Raw("SELECT pg_postmaster_start_time()").Scan(&started).Error)

	read := server{pid: 1}
	require.NoError(t, st.confirmRead(t.Context(), read), "there is no standby to wait for")
	require.False(t, st.confirmed.has(read.started.Time, read.pid))

	read.started = instant{started.Add(time.Microsecond)} // it was read from another server
	require.ErrorIs(t, st.confirmRead(t.Context(), read), errRace)
	require.False(t, st.confirmed.has(read.started.Time, read.pid))
	require.ErrorIs(t, Confirm(t.Context(), db, read.started.Time), ErrAnotherServer)

	read.started = instant{started}
	require.NoError(t, st.confirmRead(t.Context(), read))
	require.True(t, st.confirmed.has(started, 1))
	require.False(t, st.confirmed.has(started, 2), "what this backend saw was confirmed, and nothing else")
	require.NoError(t, Confirm(t.Context(), db, started))

	over, end := context.WithCancel(t.Context())
	end()
	read.pid = 2
	require.ErrorIs(t, st.confirmRead(over, read), context.Canceled)
	require.False(t, st.confirmed.has(started, 2))
}

// takeover is a primary with a synchronous standby that has no COMMIT of this test, and another server, which takes over
// as soon as something has been read for which the standby must be asked.
type takeover struct {
	primary *Store // waits for no standby
	moving  *Store // on a pool that never keeps a connection
	over    atomic.Bool
}

func newTakeover(t *testing.T) *takeover {
	t.Helper()
	primary := pgtest.Own(t, "synchronous_standby_names=missing", "synchronous_commit=local")
	other, err := pgx.ParseConfig(pgtest.Own(t).URL())
	require.NoError(t, err)
	o := &takeover{primary: storeAt(t, primary.URL())}
	config, err := pgx.ParseConfig(primary.URL())
	require.NoError(t, err)
	config.Tracer = o
	pool := stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(func(_ context.Context, to *pgx.ConnConfig) error {
		if o.over.Load() {
			to.Port, to.Password = other.Port, other.Password
		}
		return nil
	}))
	pool.SetMaxIdleConns(-1)
	o.moving = storeOn(t, pgdriver.New(pgdriver.Config{Conn: pool}))
	require.NoError(t, Migrate(t.Context(), o.primary.gorm))
	return o
}

type asks struct{}

// TraceQueryStart implements [pgx.QueryTracer].
func (o *takeover) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	reads := !strings.HasPrefix(query.SQL, "UPDATE")
	return context.WithValue(ctx, asks{}, reads && strings.Contains(query.SQL, "pg_postmaster_start_time"))
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (o *takeover) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(asks{}) == true {
		o.over.Store(true)
	}
}

// A second delivery finds the marker, and the second try of an answer that of the first one, on a primary that dies then. The
// server that has taken over does not say that its standby has them: it may never have got them.
//
// CONTRACT F-2, Q-1, X-4
func TestWhatWasSeenIsConfirmedThere(t *testing.T) {
	t.Parallel()
	o := newTakeover(t)
	process := func(s *Store) error {
		inbox, err := NewInbox(s.gorm, InboxConfig{Group: "stock", BrokerRetention: time.Hour})
		require.NoError(t, err)
		return inbox.Process(t.Context(), Message{Source: "orders", ID: "1"}, func(*gorm.DB) error { return nil })
	}
	ticket := won(t, o.primary, claimOf(1, store.Park))
	for name, twice := range map[string]func(s *Store) error{
		"a message": process,
		"an answer": func(s *Store) error { return s.Complete(t.Context(), ticket, done) },
	} {
		o.over.Store(false)
		require.NoError(t, twice(o.primary), name)
		require.ErrorIs(t, twice(o.moving), ErrAnotherServer, name)
		require.True(t, o.over.Load(), name)
	}
}

// readBackOf is what the end of a Rollback attempt reads after its COMMIT has been cut off.
func readBackOf(t *testing.T, s *Store, ticket store.Ticket) (committed, certain bool) {
	t.Helper()
	return (&tx{db: s.database, entry: &answer{store: s, claim: store.Claim{ID: ticket.ID, Owner: ticket.Owner}, fence: ticket.Fence}}).look(t.Context())
}

// The answer that is there may be another attempt's: only the own one says that COMMIT has taken effect.
//
// CONTRACT
func TestReadBackAsksForItsOwnAnswer(t *testing.T) {
	t.Parallel()
	st, c := onEach(t)["postgres"], claimOf(1, store.Park)
	ticket := won(t, st, c)
	committed, certain := readBackOf(t, st, ticket)
	require.False(t, committed, "a claim is no answer")
	require.True(t, certain)

	require.NoError(t, st.Complete(t.Context(), ticket, done))
	committed, _ = readBackOf(t, st, ticket)
	require.True(t, committed)
	other, later := ticket, ticket
	other.Owner[0]++
	later.Fence++
	for name, foreign := range map[string]store.Ticket{"another owner": other, "another fence": later} {
		committed, certain = readBackOf(t, st, foreign)
		require.False(t, committed, name)
		require.True(t, certain, name)
	}

	// An answer that was erased in the meantime was committed all the same.
	erased, err := st.Erase(t.Context(), c.Scope, store.ID{}, 10)
	require.NoError(t, err)
	require.Equal(t, 1, erased.Records)
	committed, _ = readBackOf(t, st, ticket)
	require.True(t, committed)
}

// The step that is there may be another attempt's, or only begun: only the own result says that COMMIT has taken effect.
//
// CONTRACT
func TestReadBackAsksForItsOwnStep(t *testing.T) {
	t.Parallel()
	st, c := onEach(t)["postgres"], claimOf(1, store.Resume)
	open, claimed, err := st.Resume(t.Context(), c)
	require.NoError(t, err)
	open.Opening(func() error { return nil })
	committed := func(seal store.Seal, fence int64) bool {
		of := &segments{store: st, answer: &answer{store: st, claim: c, fence: fence}}
		committed, certain := (&tx{db: st.database, entry: &sealing{segments: of, seal: &seal}}).look(t.Context())
		require.True(t, committed || certain)
		return committed
	}
	fence := claimed.Record.Fence
	charge := store.StepRecord{Name: "charge", Kind: store.ProviderStep, Result: []byte("1")}
	started, finished := store.Seal{Start: &charge}, store.Seal{Steps: []store.StepRecord{charge}}
	_, err = open.Seal(t.Context(), store.Seal{Start: &store.StepRecord{Name: "other", Kind: store.ProviderStep}})
	require.NoError(t, err)
	require.False(t, committed(started, fence), "only the record is there, and another step")
	_, err = open.Seal(t.Context(), started)
	require.NoError(t, err)
	require.True(t, committed(started, fence))
	require.False(t, committed(finished, fence), "a step that has begun has no result")
	require.False(t, committed(store.Seal{Steps: finished.Steps, Start: started.Start}, fence),
		"the call behind the step has begun before, as in a repeat: its start does not say that this seal has committed")
	_, err = open.Seal(t.Context(), finished)
	require.NoError(t, err)
	require.True(t, committed(finished, fence))
	require.False(t, committed(finished, fence+1), "another attempt's")
}

// A standby may be behind its primary: that the answer is absent there says nothing.
//
// CONTRACT X-4, F-2
func TestReadBackDoesNotBelieveAStandby(t *testing.T) {
	t.Parallel()
	primary := pgtest.Own(t)
	require.NoError(t, Migrate(t.Context(), storeAt(t, primary.URL()).gorm))
	ticket := store.Ticket{ID: store.ID{1}, Owner: store.Owner{1}, Fence: 1}
	committed, certain := readBackOf(t, storeAt(t, primary.URL()), ticket)
	require.False(t, committed)
	require.True(t, certain, "the primary knows")

	standby := primary.Standby()
	committed, certain = readBackOf(t, storeAt(t, standby.URL()), ticket)
	require.False(t, committed)
	require.False(t, certain, "a standby does not")

	// Nor does it say that its primary's standby has what can be seen here.
	onStandby := storeAt(t, standby.URL())
	require.ErrorContains(t, onStandby.confirm(t.Context(), time.Time{}), "recovery")

	// Nor does it say that no attempt is running: the locks of the primary cannot be seen there. CONTRACT M-7
	_, err := storeAt(t, standby.URL()).InFlight(t.Context(), ticket.ID)
	require.ErrorContains(t, err, "the server is a standby")
}
