package gormstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/journal"
	"github.com/auth19/idem/internal/pgtest"
)

func newJournal(t *testing.T, db *gorm.DB) *journal.Journal {
	t.Helper()
	j := try(journal.New(db)).ok(t)
	return j
}

// entryOf is the entry that a client proposes for a new intent.
func entryOf(t *testing.T, intent string, command byte) intents.Entry {
	t.Helper()
	e := intents.Entry{Intent: intent, Key: intents.NewKey()}
	if command != 0 {
		e.Command = store.CommandHash{Version: 1, Sum: [32]byte{command}}
	}
	return e
}

// advanceIntents moves all times of all intents d into the past.
func advanceIntents(t *testing.T, db *gorm.DB, d time.Duration) {
	t.Helper()
	moveBack(t, db, d, "idempotency_intent", "planned_at", "begun_at", "ended_at")
}

// CONTRACT C-1
func TestJournalKeepsTheFirstKeyAndCommand(t *testing.T) {
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		j := newJournal(t, db)

		planned := entryOf(t, "order-7", 0)
		found := try(j.Begin(t.Context(), planned)).ok(t)
		require.Equal(t, planned, found, "a key without a command, and so of no age")

		first := entryOf(t, "order-7", 1)
		found = try(j.Begin(t.Context(), first)).ok(t)
		require.Equal(t, planned.Key, found.Key)
		require.Equal(t, first.Command, found.Command)

		advanceIntents(t, db, 3*time.Hour)
		other := entryOf(t, "order-7", 2)
		other.Command.Version = 2
		found = try(newJournal(t, db).Begin(t.Context(), other)).ok(t)
		require.Equal(t, planned.Key, found.Key)
		require.Equal(t, first.Command, found.Command, "the first command stands")
		require.InDelta(t, 3*time.Hour, found.Age, float64(time.Minute), "by the database's clock, since the first attempt")

		require.NoError(t, j.End(t.Context(), "order-7"))
		require.NoError(t, j.End(t.Context(), "order-7"))
		require.NoError(t, j.End(t.Context(), "never heard of"))
		found = try(j.Begin(t.Context(), entryOf(t, "order-7", 1))).ok(t)
		require.True(t, found.Ended)
		require.Equal(t, planned.Key, found.Key)
	})
}

// CONTRACT C-1
func TestJournalGivesOneKeyToAll(t *testing.T) {
	onEvery(t, func(t *testing.T, d database, db *gorm.DB) {
		journals := []*journal.Journal{newJournal(t, db), newJournal(t, db)}
		if d.name == "sqlite" {
			journals[1] = journals[0] // one process per file
		}
		entries := make([]intents.Entry, 24)
		for i := range entries {
			entries[i] = entryOf(t, "order-7", byte(i%2+1))
		}
		found := atOnce(len(entries), func(i int) result[intents.Entry] {
			return try(journals[i%2].Begin(t.Context(), entries[i]))
		})
		for _, one := range found {
			require.Equal(t, found[0].value.Key, one.ok(t).Key)
			require.Equal(t, found[0].value.Command, one.value.Command)
		}
	})
}

// CONTRACT C-1
func TestJournalPlansWithTheCallersRows(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, store *gormstore.Store) {
		j := newJournal(t, db)
		pending := func() (names []string) {
			entries := try(j.Pending(t.Context(), "", 10)).ok(t)
			for _, e := range entries {
				names = append(names, e.Intent)
				require.Len(t, e.Key, 36)
				require.Zero(t, e.Command)
				require.Zero(t, e.Age)
			}
			return names
		}

		lost := errors.New("lost")
		require.ErrorIs(t, db.Transaction(func(tx *gorm.DB) error {
			require.NoError(t, tx.Create(&effect{Name: "rolled back"}).Error)
			require.NoError(t, j.Plan(tx, "rolled back"))
			return lost
		}), lost)
		require.Empty(t, pending())
		require.NoError(t, db.Transaction(func(tx *gorm.DB) error {
			require.NoError(t, tx.Create(&effect{Name: "committed"}).Error)
			require.NoError(t, j.Plan(tx, "committed"))
			return j.Plan(tx, "committed")
		}))
		require.Equal(t, []string{"committed"}, pending())
		require.Equal(t, 1, countEffects(t, db))

		require.ErrorContains(t, j.Plan(db, "outside"), "pass the tx of db.Transaction, or gormstore.Tx(ctx)")
		require.ErrorIs(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "") }), intents.ErrNoIntent)
		require.ErrorIs(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "a\x00b") }), intents.ErrNoIntent)

		// In a guarded handler it commits with the answer.
		tx, ctx := begin(t, store, command(core.Rollback))
		require.NoError(t, j.Plan(gormstore.Tx(ctx), "in a handler"))
		require.NoError(t, seal(t.Context(), tx, paid(), false))
		tx, ctx = begin(t, store, command(core.Rollback))
		require.NoError(t, j.Plan(gormstore.Tx(ctx), "in a handler that fails"))
		require.NoError(t, tx.Rollback())
		require.Equal(t, []string{"committed", "in a handler"}, pending())
	})
}

// CONTRACT X-6
func TestJournalPlanRefusesAnotherTransaction(t *testing.T) {
	db := freshPostgres("", false)(t)(t)
	store := newStore(t, db)
	j := newJournal(t, db)
	_, ctx := begin(t, store, command(core.Rollback))
	other := opened(t, db) // without the handler's context, which the write guard would see
	require.ErrorIs(t, j.Plan(other.WithContext(ctx), "order-7"), gormstore.ErrOutsideTransaction)
	require.NoError(t, j.Plan(other.WithContext(gormstore.Outside(ctx)), "order-7"))
}

// The caller that notes the command first knows that nothing was sent under its key before, planned or not.
//
// CONTRACT C-4
func TestJournalKnowsTheFirst(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		j := newJournal(t, db)
		require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "planned") }))
		for _, intent := range []string{"planned", "new"} {
			firsts := 0
			for _, one := range atOnce(8, func(int) result[intents.Entry] {
				return try(j.Begin(t.Context(),
					intents.Entry{Intent: intent, Command: store.CommandHash{Version: 1, Sum: [32]byte{1}}}))
			}) {
				if one.ok(t).First {
					firsts++
				}
			}
			require.Equal(t, 1, firsts, intent)
		}
		e := try(j.Begin(t.Context(), entryOf(t, "with a key of the caller's", 1))).ok(t)
		require.False(t, e.First)
		// Nor if an earlier process had brought the key: nobody knows what was sent with it before.
		require.NoError(t, err2(j.Begin(t.Context(), entryOf(t, "with a key of an earlier caller's", 0))))
		later := intents.Entry{Intent: "with a key of an earlier caller's", Command: store.CommandHash{Version: 1}}
		e = try(newJournal(t, db).Begin(t.Context(), later)).ok(t)
		require.False(t, e.First)
		// But where another key than the intent's was brought, nothing was sent.
		refused := intents.Entry{Intent: "another key was refused"}
		require.NoError(t, err2(j.Begin(t.Context(), refused)))
		refused.Key = "another"
		require.NoError(t, err2(j.Begin(t.Context(), refused)))
		refused.Key, refused.Command = "", store.CommandHash{Version: 1}
		require.True(t, try(j.Begin(t.Context(), refused)).ok(t).First)
		e = try(j.Begin(t.Context(), intents.Entry{Intent: "only its key is asked for"})).ok(t)
		require.False(t, e.First)
		require.Len(t, e.Key, 36)
	})
}

// Who asks again under its own name learns whether another caller has come since.
//
// CONTRACT C-8
func TestJournalKnowsWhetherOthersHaveCome(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		for what, others := range map[string]func(j *journal.Journal, e intents.Entry){
			"nobody": func(*journal.Journal, intents.Entry) {},
			"one that only asks": func(j *journal.Journal, e intents.Entry) {
				require.NoError(t, err2(j.Begin(t.Context(), intents.Entry{Intent: e.Intent})))
				_, _, err := j.Find(t.Context(), e.Intent)
				require.NoError(t, err)
				require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, e.Intent) }))
			},
			"one whose key is refused": func(j *journal.Journal, e intents.Entry) {
				require.NoError(t, err2(j.Begin(t.Context(), intents.Entry{Intent: e.Intent, Key: "another", By: "second"})))
			},
			"one that sends": func(j *journal.Journal, e intents.Entry) {
				e.By = "second"
				require.False(t, try(j.Begin(t.Context(), e)).ok(t).First)
			},
			"one without a name": func(j *journal.Journal, e intents.Entry) {
				e.By = ""
				require.False(t, try(j.Begin(t.Context(), e)).ok(t).First)
			},
			"one that brings the key": func(j *journal.Journal, e intents.Entry) {
				there, _, err := j.Find(t.Context(), e.Intent)
				require.NoError(t, err)
				require.NoError(t, err2(j.Begin(t.Context(), intents.Entry{Intent: e.Intent, Key: there.Key, By: "second"})))
			},
		} {
			j, e := newJournal(t, db), intents.Entry{Intent: what, By: "first", Command: store.CommandHash{Version: 1}}
			require.True(t, try(j.Begin(t.Context(), e)).ok(t).First, what)
			others(newJournal(t, db), e)
			for range 2 {
				alone := what == "nobody" || what == "one that only asks" || what == "one whose key is refused"
				require.Equal(t, alone, try(j.Begin(t.Context(), e)).ok(t).First, what)
			}
		}
	})
}

// The journal is lost after a charge. Its keys are those of names and a secret: the provider recognises the repeat.
//
// CONTRACT C-1
func TestJournalIsLost(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		secret := try(intents.NewSecret(bytes.Repeat([]byte{7}, intents.MinSecret))).ok(t)
		for _, test := range []struct {
			opts    []journal.Option
			charges int
		}{{nil, 2}, {[]journal.Option{journal.KeysOf(secret)}, 1}} {
			provider := newCharges(t)
			for range 2 {
				j := try(journal.New(db, test.opts...)).ok(t)
				require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "order-7") }))
				client := journalClient(t, idemclient.Config{Journal: j})
				require.NoError(t, provider.charge(t.Context(), client, "order-7"))
				require.NoError(t, provider.charge(t.Context(), client, "order-8"))
				require.NoError(t, db.Exec("DELETE FROM idempotency_intent").Error)
			}
			require.Len(t, provider.made(), 2*test.charges)
		}
		// The server can be asked for it, too.
		j := try(journal.New(db, journal.KeysOf(secret))).ok(t)
		e, there, err := j.Find(t.Context(), "order-7")
		require.NoError(t, err)
		require.False(t, there)
		require.Equal(t, secret.Key("order-7"), e.Key)
		// That the key was not used before is not known, not even at first.
		e, err = j.Begin(t.Context(),
			intents.Entry{Intent: "order-9", Command: store.CommandHash{Version: 1, Sum: [32]byte{1}}})
		require.NoError(t, err)
		require.False(t, e.First)
		require.Equal(t, secret.Key("order-9"), e.Key)
	})
}

func TestJournalPending(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		j := newJournal(t, db)
		var want []string
		for i := range 5 {
			e := entryOf(t, fmt.Sprintf("order-%d", i), 1)
			require.NoError(t, err2(j.Begin(t.Context(), e)))
			if i == 2 {
				require.NoError(t, j.End(t.Context(), e.Intent))
				continue
			}
			want = append(want, e.Intent)
		}
		var got []string
		for after := ""; ; after = got[len(got)-1] {
			page := try(j.Pending(t.Context(), after, 3)).ok(t)
			for _, e := range page {
				got = append(got, e.Intent)
			}
			if len(page) < 3 {
				break
			}
		}
		require.Equal(t, want, got)
	})
}

func TestJournalSweep(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		j := newJournal(t, db)
		begin := func(intent string) {
			require.NoError(t, err2(j.Begin(t.Context(), entryOf(t, intent, 1))))
		}
		begin("pending")
		require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "planned") }))
		for i := range 3 {
			begin(fmt.Sprint("ended ", i))
			require.NoError(t, j.End(t.Context(), fmt.Sprint("ended ", i)))
		}
		advanceIntents(t, db, 48*time.Hour)
		require.NoError(t, j.End(t.Context(), "ended 0"), "it ended when it ended first")
		begin("just ended")
		require.NoError(t, j.End(t.Context(), "just ended"))

		require.ErrorContains(t, err2(j.Sweep(t.Context(), 24*time.Hour-1, 10)), "use at least 24h0m0s")
		for _, want := range []int{2, 1, 0} {
			require.Equal(t, want, try(j.Sweep(t.Context(), 47*time.Hour, 2)).ok(t))
		}
		left := query[[]string](t, db, "SELECT intent FROM idempotency_intent ORDER BY intent")
		require.Equal(t, []string{"just ended", "pending", "planned"}, left, "what is pending is never removed, however old")
	})
}

func TestJournalWithoutItsTable(t *testing.T) {
	db := openPostgres(t, pgtest.URL(t), 4)
	j := newJournal(t, db)
	const want = "run gormstore.Migrate"
	require.ErrorContains(t, err2(j.Begin(t.Context(), entryOf(t, "order-7", 1))), want)
	require.ErrorContains(t, j.End(t.Context(), "order-7"), want)
	require.ErrorContains(t, err2(j.Pending(t.Context(), "", 10)), want)
	_, err := j.Sweep(t.Context(), 48*time.Hour, 10)
	require.ErrorContains(t, err, want)
	require.ErrorContains(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "order-7") }), want)
}

// CONTRACT C-1, M-6
func TestTwoProcessesResumeOneIntent(t *testing.T) {
	t.Parallel()
	bank, url := newCharges(t), migratedURL(t)
	var clients [2]*idemclient.Client
	for i := range clients {
		j := newJournal(t, openPostgres(t, url, 4))
		clients[i] = journalClient(t, idemclient.Config{Journal: j, FirstPause: time.Millisecond})
	}
	for _, err := range atOnce(16, func(i int) error {
		return bank.charge(t.Context(), clients[i%2], fmt.Sprint("order-", i/4))
	}) {
		require.NoError(t, err)
	}
	require.Len(t, bank.made(), 4)
}

// The app's logger would print the key.
func TestJournalIsNotLogged(t *testing.T) {
	url := migratedURL(t)
	var printed bytes.Buffer
	db := try(gorm.Open(postgres.Open(url), &gorm.Config{
		Logger: logger.New(log.New(&printed, "", 0), logger.Config{LogLevel: logger.Info, SlowThreshold: 1}),
	})).ok(t)
	pool := try(db.DB()).ok(t)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	j := newJournal(t, db)
	require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return j.Plan(tx, "order-7") }))
	e := try(j.Begin(t.Context(), entryOf(t, "order-7", 1))).ok(t)
	require.NoError(t, db.Exec("SELECT 'it prints'").Error)
	require.Contains(t, printed.String(), "it prints")
	require.NotContains(t, printed.String(), e.Key)
}

// caller names the environment of the process that TestCallerIsKilled starts.
const (
	callerURL = "IDEM_TEST_CALLER_URL"
	callerDB  = "IDEM_TEST_CALLER_DB" // "" is a caller without a journal
)

// TestJournalCaller is the other process of TestCallerIsKilled: it sends one command, and prints how it went.
func TestJournalCaller(t *testing.T) {
	url := os.Getenv(callerURL)
	if url == "" {
		t.Skip("runs in a process of its own, started by TestCallerIsKilled")
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	cfg := idemclient.Config{Transport: transport}
	if file := os.Getenv(callerDB); file != "" {
		db := openDB(t, sqlite.Open(file), 4)
		require.NoError(t, gormstore.Migrate(t.Context(), db))
		cfg.Journal = newJournal(t, db)
	}
	client := try(idemclient.New(cfg)).ok(t)
	r := try(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"amount":"12.50"}`))).ok(t)
	res, err := client.Do(t.Context(), "order-7/pay", r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	fmt.Printf("answer: %d replayed: %t\n", res.StatusCode, idemclient.ResultOf(res).Replayed)
}

// A caller is killed when its command has taken effect and the answer is not there yet. Started again, it sends the
// intent once more: with the journal under the same key, without it under a new one, which pays twice.
//
// CONTRACT C-1
func TestCallerIsKilled(t *testing.T) {
	for name, test := range map[string]struct {
		j       bool
		effects int64
		answer  string
	}{
		"with a journal": {true, 1, "answer: 201 replayed: true"},
		"without":        {false, 2, "answer: 201 replayed: false"},
	} {
		t.Run(name, func(t *testing.T) {
			idem := newModule(t, memstore.New(), core.Policy{Recovery: core.Park})
			var effects atomic.Int64
			running := make(chan *exec.Cmd, 1)
			server := httptest.NewServer(guarded(idem, func(w http.ResponseWriter, _ *http.Request) {
				if effects.Add(1) == 1 {
					caller := <-running
					_ = caller.Process.Kill()
					_ = caller.Wait()
				}
				w.WriteHeader(http.StatusCreated)
			}))
			defer server.Close()
			file := ""
			if test.j {
				file = sqliteAddress(t)
			}
			start := func(out *bytes.Buffer) *exec.Cmd {
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestJournalCaller$")
				cmd.Env = append(os.Environ(), callerURL+"="+server.URL+"/v1/payments", callerDB+"="+file)
				cmd.Stdout, cmd.Stderr = out, out
				require.NoError(t, cmd.Start())
				return cmd
			}
			var killed, again bytes.Buffer
			first := start(&killed)
			running <- first
			eventually(t, "the caller is killed", func() bool { return effects.Load() == 1 && len(running) == 0 })
			second := start(&again)
			require.NoError(t, second.Wait(), again.String())
			require.Contains(t, again.String(), test.answer)
			require.NotContains(t, killed.String(), "answer:")
			require.Equal(t, test.effects, effects.Load())
		})
	}
}

// guarded is a server with one guarded route.
func guarded(idem *core.Module, handler http.HandlerFunc) http.Handler {
	caller := core.Principal{Issuer: "https://issuer.example", Subject: "caller-1"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, reply := idem.Admit(r, r.URL.Path, caller)
		if reply == nil {
			var attempt *core.Attempt
			if attempt, reply = idem.Begin(r, r.URL.Path, caller); attempt != nil {
				handler(attempt.Capture(w), attempt.Request())
				reply = attempt.Finish()
			}
		}
		_ = reply.WriteTo(w)
	})
}
