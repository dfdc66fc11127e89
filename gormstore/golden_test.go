package gormstore_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/internal/pgtest"
)

// goldenVersion is the release whose databases -update writes. Those of earlier releases are never written again.
const goldenVersion = "v0.1.0"

var updateGolden = flag.Bool("update", false, "write the databases of "+goldenVersion+" in testdata/golden")

// goldenRefundKey is what the provider of half-1 knows the refund by.
const goldenRefundKey = "d34b83fd81c8b01d3ea0fdb098edb1e81ab6e46118f589d9261a0610e1d3c8ad"

// What was proposed of proposed-1, and by whom: the answer of rollback-2.
var (
	goldenOperator = core.Principal{Issuer: alice.Issuer, Subject: "olga"}
	goldenProposed = core.Scoping{}.RecordID(core.Principal{Issuer: alice.Issuer, Subject: "customer-1"}, "proposed-1")
)

// goldenDecision is the digest of what is kept of the proposal: its bytes do not change, or an open proposal cannot be read.
const goldenDecision = "b3ad5ab5b382fbfc4797cb3b33f52373fd560de04da58bc9522d3093ef94f1e2"

// golden are the answers that the databases hold. They were recorded by the release, and are never changed here.
var golden = []struct {
	key      string
	recovery core.Recovery
	answer   core.Answer
}{
	{"rollback-1", core.Rollback, core.Answer{
		Status: http.StatusCreated,
		Header: http.Header{"Content-Type": {"application/json"}, "Location": {"/v1/bookings/1"}},
		Body:   []byte(`{"id": 1, "amount": "12.50"}` + "\n"),
	}},
	{"rollback-2", core.Rollback, core.Answer{
		Status: http.StatusConflict,
		Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
		Body:   []byte("it's gone: \u00dc\\ ; -- 'x'"),
	}},
	{"resume-1", core.Resume, core.Answer{
		Status: http.StatusOK,
		Header: http.Header{"Content-Type": {"application/octet-stream"}},
		Body:   []byte{0, 1, 2, 0xff, 0xfe, '\n', 0},
	}},
	{"park-1", core.Park, core.Answer{Status: http.StatusAccepted, Header: http.Header{}, Body: []byte("{}")}},
}

// A database of every release is kept as SQL, for each dialect, and the code of today reads it: recorded answers are
// replayed byte for byte, what is unknown stays unknown, a proposal is carried out, finished steps are not run again, a
// message is processed once, and an intent keeps its key. docs/contributors/releasing.md says when -update may write one.
//
// CONTRACT, T-2, Q-1, C-1
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, dialect := range []struct {
		name  string
		empty func(t *testing.T) *gorm.DB
	}{
		{"postgres", func(t *testing.T) *gorm.DB { return openPostgres(t, pgtest.URL(t), 8) }},
		{"sqlite", func(t *testing.T) *gorm.DB { return openDB(t, sqlite.Open(sqliteAddress(t)), 8) }},
	} {
		t.Run(dialect.name, func(t *testing.T) {
			t.Parallel()
			if *updateGolden {
				db := dialect.empty(t)
				migrate(t, db)
				writeGolden(t, db)
				dump(t, db, filepath.Join("testdata", "golden", goldenVersion+"."+dialect.name+".sql"))
			}
			files := try(filepath.Glob(filepath.Join("testdata", "golden", "*."+dialect.name+".sql"))).ok(t)
			require.NotEmpty(t, files)
			for _, file := range files {
				t.Run(filepath.Base(file), func(t *testing.T) { readGolden(t, dialect.empty(t), file) })
			}
		})
	}
}

// goldenModules are the modules of a store, one for each recovery.
type goldenModules map[core.Recovery]*core.Module

func newGoldenModules(t *testing.T, store *gormstore.Store) goldenModules {
	modules := goldenModules{}
	for _, recovery := range []core.Recovery{core.Rollback, core.Resume, core.Park} {
		modules[recovery] = newModule(t, store, core.Policy{Recovery: recovery})
	}
	return modules
}

// writeGolden leaves a database behind as an app of this release does.
func writeGolden(t *testing.T, db *gorm.DB) {
	st := newStore(t, db)
	modules := newGoldenModules(t, st)
	examplePost(modules[core.Rollback], "expired-1", func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, gormstore.Tx(r.Context()).Create(&effect{Name: "expired-1"}).Error)
		w.WriteHeader(http.StatusCreated)
	})
	advance(t, db, 73*time.Hour)
	swept := sweep(t, st, 100)
	require.Equal(t, 1, swept.Tombstones)

	for _, g := range golden {
		examplePost(modules[g.recovery], g.key, func(w http.ResponseWriter, r *http.Request) {
			switch g.recovery {
			case core.Rollback:
				require.NoError(t, gormstore.Tx(r.Context()).Create(&effect{Name: g.key}).Error)
			case core.Resume:
				require.NoError(t, err2(goldenSteps(t, r, nil)))
			}
			maps.Copy(w.Header(), g.answer.Header)
			w.WriteHeader(g.answer.Status)
			require.NoError(t, err2(w.Write(g.answer.Body)))
		})
	}
	w := examplePost(modules[core.Resume], "half-1", func(w http.ResponseWriter, r *http.Request) {
		require.Error(t, err2(goldenSteps(t, r, errors.New("the provider's answer is lost"))))
		w.WriteHeader(http.StatusBadGateway)
	})
	require.Equal(t, http.StatusBadGateway, w.Code)
	w = examplePost(modules[core.Park], "unknown-1", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	require.Equal(t, "unknown", w.Header().Get("Idempotency-Result"))
	w = examplePost(modules[core.Park], "proposed-1", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	require.Equal(t, "unknown", w.Header().Get("Idempotency-Result"))
	advance(t, db, 2*time.Minute)
	try(operations.New(modules[core.Park]).Propose(t.Context(), goldenProposed, goldenOperator, core.Decision{Why: "seen at the provider",
		Fence: 1, Applied: true, Answer: new(golden[1].answer)})).ok(t)
	w = examplePost(modules[core.Rollback], "free-1", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	require.Equal(t, http.StatusInternalServerError, w.Code)

	require.NoError(t, newInbox(t, db, stockInbox).Process(t.Context(), goldenMessage(), func(*gorm.DB) error { return nil }))
	require.NoError(t, err2(newJournal(t, db).Begin(t.Context(), goldenIntent())))
}

// goldenSteps are the steps of the Resume operations. The second ends with the error.
func goldenSteps(t *testing.T, r *http.Request, answer error) (ran []string, err error) {
	name := try(gormstore.Step(r.Context(), "reserve", func(tx *gorm.DB) (string, error) {
		ran = append(ran, "reserve")
		return "reserved", tx.Create(&effect{Name: "reserve"}).Error
	})).ok(t)
	require.Equal(t, "reserved", name)
	receipt, err := core.Call(r.Context(), "refund", func(_ context.Context, key core.DerivedKey) (string, error) {
		ran = append(ran, "refund "+key.String())
		return "receipt-1", answer
	}, core.Dedup(10*365*24*time.Hour))
	if err == nil {
		require.Equal(t, "receipt-1", receipt)
	}
	return ran, err
}

func goldenMessage() inbox.Message {
	return inbox.Message{Source: "payments", ID: "3f8c", Payload: []byte(`{"sku":"tea"}`), Published: time.Now()}
}

func goldenIntent() intents.Entry {
	return intents.Entry{
		Intent: "remittance/1", Key: "0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c", Command: store.CommandHash{Version: 1, Sum: [32]byte{1, 2, 3}},
	}
}

// readGolden loads a database, brings it up to date as an app does when it is upgraded, and uses it.
func readGolden(t *testing.T, db *gorm.DB, file string) {
	load(t, db, file)
	migrate(t, db)
	store := newStore(t, db)
	require.NoError(t, store.Validate(t.Context()))
	modules := newGoldenModules(t, store)
	before := countEffects(t, db)
	mustNotRun := func(http.ResponseWriter, *http.Request) { t.Error("the handler must not run") }

	for _, g := range golden {
		w := examplePost(modules[g.recovery], g.key, mustNotRun)
		require.Equal(t, "reused", w.Header().Get("Idempotency-Result"), "%s: %s", g.key, w.Body)
		require.Equal(t, g.answer.Status, w.Code)
		require.Equal(t, string(g.answer.Body), w.Body.String())
		for name, values := range g.answer.Header {
			require.Equal(t, values, w.Header()[name])
		}
	}
	for key, code := range map[string]string{"unknown-1": "outcome_unknown", "expired-1": "key_expired"} {
		w := examplePost(modules[core.Park], key, mustNotRun)
		require.Equal(t, http.StatusConflict, w.Code)
		require.Contains(t, w.Body.String(), code)
	}

	var proposal struct{ Token, Decision []byte }
	require.NoError(t, db.Table("idempotency_note").Where("kind = 1").Take(&proposal).Error)
	require.Equal(t, goldenDecision, fmt.Sprintf("%x", sha256.Sum256(proposal.Decision)))
	second := goldenOperator
	second.Subject = "otto"
	settled := try(operations.New(modules[core.Park]).CarryOut(t.Context(), goldenProposed, operations.Second{By: second, Why: "I see it, too", Fence: 1,
		Digest: fmt.Sprintf("%x", sha256.Sum256(slices.Concat(proposal.Token, proposal.Decision)))})).ok(t)
	require.Equal(t, golden[1].answer, settled.Answer)

	ran := false
	w := examplePost(modules[core.Rollback], "free-1", func(w http.ResponseWriter, _ *http.Request) { ran = true })
	require.True(t, ran, w.Body)

	var steps []string
	w = examplePost(modules[core.Resume], "half-1", func(w http.ResponseWriter, r *http.Request) {
		steps = try(goldenSteps(t, r, nil)).ok(t)
		w.WriteHeader(http.StatusCreated)
	})
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	require.Equal(t, []string{"refund " + goldenRefundKey}, steps, "the finished step is not run again")
	require.Equal(t, before, countEffects(t, db))

	box := newInbox(t, db, stockInbox)
	require.NoError(t, box.Process(t.Context(), goldenMessage(), never(t)))
	other := goldenMessage()
	other.Payload = []byte(`{"sku":"coffee"}`)
	require.ErrorIs(t, box.Process(t.Context(), other, never(t)), inbox.ErrReused)

	intent, found, err := newJournal(t, db).Find(t.Context(), goldenIntent().Intent)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, goldenIntent().Key, intent.Key)
	require.Equal(t, goldenIntent().Command, intent.Command)
	require.False(t, intent.Ended)
}
