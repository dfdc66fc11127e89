package gormstore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// testSealingKey is a key of a name, the same one each time.
func testSealingKey(name string) gormstore.SealingKey {
	return gormstore.SealingKey{Name: name, Key: bytes.Repeat([]byte(name), 32)[:32]}
}

func aead(t *testing.T, current string, older ...string) gormstore.AEAD {
	t.Helper()
	var keys []gormstore.SealingKey
	for _, name := range older {
		keys = append(keys, testSealingKey(name))
	}
	return try(gormstore.AESGCM(testSealingKey(current), keys...)).ok(t)
}

// faulty is an AEAD of an app that can be made to fail.
type faulty struct {
	gormstore.AEAD
	encrypts atomic.Int64
	fail     atomic.Pointer[func() ([]byte, error)]
}

func (f *faulty) Encrypt(plaintext, data []byte) ([]byte, error) {
	f.encrypts.Add(1)
	if fail := f.fail.Load(); fail != nil {
		return (*fail)()
	}
	return f.AEAD.Encrypt(plaintext, data)
}

func TestKeysOfAESGCM(t *testing.T) {
	t.Parallel()
	old, both := aead(t, "2025-b"), aead(t, "2026-a", "2025-b")
	box := try(old.Encrypt([]byte("text"), []byte("data"))).ok(t)
	require.NotEqual(t, box, try(old.Encrypt([]byte("text"), []byte("data"))).ok(t), "a nonce of its own")
	require.Equal(t, "text", string(try(both.Decrypt(box, []byte("data"))).ok(t)))
	for _, open := range []func() ([]byte, error){
		func() ([]byte, error) { return both.Decrypt(box, []byte("date")) },
		func() ([]byte, error) { return aead(t, "2026-a").Decrypt(box, []byte("data")) },
		func() ([]byte, error) { return both.Decrypt(nil, nil) },
		func() ([]byte, error) { return both.Decrypt(box[:len(box)-1], []byte("data")) },
		func() ([]byte, error) { return both.Decrypt(box[:10], []byte("data")) },
	} {
		_, err := open()
		require.Error(t, err)
	}
	name, ok := both.(gormstore.KeyNamer).KeyName(box)
	require.True(t, ok)
	require.Equal(t, "2025-b", name)
	_, ok = both.(gormstore.KeyNamer).KeyName(append([]byte{1, 2, 0xff, 0}, box...))
	require.False(t, ok, "Tink's messages begin with a 1, too")

	good := testSealingKey("good")
	for want, keys := range map[string][]gormstore.SealingKey{
		"Name":           {{Key: good.Key}},
		`Name "a b"`:     {{Name: "a b", Key: good.Key}},
		"two keys":       {good, good},
		"32 random":      {{Name: "short", Key: good.Key[:16]}},
		"not 32 bytes t": {{Name: "zero", Key: make([]byte, 32)}},
	} {
		_, err := gormstore.AESGCM(keys[0], keys[1:]...)
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", good, good, good, string(try(json.Marshal(good)).ok(t))), "103")
	require.Contains(t, fmt.Sprint(good), "good")
}

// inPlain is an AEAD that seals nothing, and deaf one that does not look at associated data.
type inPlain struct{}

func (inPlain) Encrypt(p, _ []byte) ([]byte, error) { return p, nil }
func (inPlain) Decrypt(c, _ []byte) ([]byte, error) { return c, nil }

func TestSealingOptions(t *testing.T) {
	t.Parallel()
	db := freshSQLite(t)(t)
	keys := aead(t, "2026-a")
	failing := &faulty{AEAD: keys}
	failing.fail.Store(new(func() ([]byte, error) { return nil, errors.New("no key") }))
	for want, options := range map[string][]gormstore.Option{
		"nil":                {gormstore.Seal(nil)},
		"once":               {gormstore.Seal(keys), gormstore.Unseal(keys)},
		"KeyNamer":           {gormstore.Seal(&faulty{AEAD: keys}), gormstore.Lost("2025-b")},
		`Lost("2026-a")`:     {gormstore.Seal(keys), gormstore.Lost("2026-a")},
		`Lost("")`:           {gormstore.Lost("")},
		"does not seal":      {gormstore.Seal(inPlain{})},
		"seals nothing: no ": {gormstore.Seal(failing)},
	} {
		_, err := gormstore.New(db, options...)
		require.ErrorContains(t, err, want)
	}
}

const iban = "IBAN DE89 3704"

// sealedCommands are one command of each recovery, with its answer and, of Resume, the results of a call and a step.
func sealedCommands(t *testing.T, st *gormstore.Store) map[core.Recovery]func(key string) *httptest.ResponseRecorder {
	t.Helper()
	all := map[core.Recovery]func(key string) *httptest.ResponseRecorder{}
	for _, recovery := range []core.Recovery{core.Rollback, core.Resume, core.Park} {
		m := newModule(t, st, core.Policy{Recovery: recovery})
		all[recovery] = func(key string) *httptest.ResponseRecorder {
			return serve(t, m, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if recovery == core.Resume {
					err := errors.Join(
						err2(core.Call(r.Context(), "charge", func(context.Context, core.DerivedKey) (string, error) { return iban, nil },
							core.Dedup(time.Hour))),
						err2(gormstore.Step(r.Context(), "book", func(*gorm.DB) (string, error) { return iban, nil })))
					if err != nil {
						http.Error(w, err.Error(), http.StatusInternalServerError)
						return
					}
				}
				w.Header().Set("Location", "/v1/"+iban+"\xe9")
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write([]byte(iban + "\x00\xff"))
			}))
		}
	}
	return all
}

// tables is everything that the tables of records and steps hold.
func tables(t *testing.T, db *gorm.DB) string {
	t.Helper()
	var all []byte
	for _, table := range []string{"idempotency_record", "idempotency_step", "idempotency_note"} {
		var rows []map[string]any
		require.NoError(t, db.Table(table).Find(&rows).Error)
		for _, row := range rows {
			for _, v := range row {
				if b, ok := v.([]byte); ok {
					all = append(all, b...)
				} else {
					all = fmt.Append(all, v)
				}
			}
		}
	}
	return string(all)
}

// With Seal nothing of an answer or a step's result can be read in the tables, and repeats get it byte for byte, from this
// instance and from one that only opens. What was recorded before stays readable.
//
// CONTRACT F-9, M-3, R-2
func TestNothingIsReadableInTheTables(t *testing.T) {
	t.Parallel()
	onDatabases(t, []string{"postgres", "postgres simple protocol", "sqlite", "postgres wrapped"},
		func(t *testing.T, open func(t *testing.T) *gorm.DB) {
			db := open(t)
			st := asked(t, try(gormstore.New(db)).ok(t))
			before := map[core.Recovery]*httptest.ResponseRecorder{}
			for recovery, send := range sealedCommands(t, st) {
				before[recovery] = send("plain-" + recovery.String())
				requireRecorded(t, before[recovery])
			}
			require.Contains(t, tables(t, db), iban)
			execute(t, db, "UPDATE idempotency_step SET result = NULL") // nobody reads them any more
			plain := query[int](t, db, "SELECT count(*) FROM idempotency_record WHERE answer_encoding = 1")
			require.NoError(t, st.Close())

			st = asked(t, try(gormstore.New(db, gormstore.Seal(aead(t, "2026-a")))).ok(t))
			first := map[core.Recovery]*httptest.ResponseRecorder{}
			for recovery, send := range sealedCommands(t, st) {
				first[recovery] = send("sealed-" + recovery.String())
				requireRecorded(t, first[recovery])
				requireReplay(t, before[recovery], send("plain-"+recovery.String()))
				requireReplay(t, first[recovery], send("sealed-"+recovery.String()))
			}
			execute(t, db, "DELETE FROM idempotency_record WHERE answer_encoding = 1")
			require.Equal(t, 3, plain)
			require.NotContains(t, tables(t, db), "DE89")
			require.Equal(t, 2, query[int](t, db, "SELECT count(*) FROM idempotency_step WHERE encoding = 2"))
			require.NoError(t, st.Close())

			st = newStore(t, db, gormstore.Unseal(aead(t, "2027-a", "2026-a")))
			for recovery, send := range sealedCommands(t, st) {
				requireReplay(t, first[recovery], send("sealed-"+recovery.String()))
				requireRecorded(t, send("again-"+recovery.String()))
			}
			require.Contains(t, tables(t, db), iban, "it seals nothing")
		})
}

func requireReplay(t *testing.T, first, again *httptest.ResponseRecorder) {
	t.Helper()
	require.Equal(t, "reused", again.Header().Get("Idempotency-Result"), again.Body)
	require.Equal(t, first.Code, again.Code)
	require.Equal(t, first.Body.Bytes(), again.Body.Bytes())
	require.Equal(t, first.Header().Get("Location"), again.Header().Get("Location"))
}

// Any two sealed values of a table that change places are noticed, and so is another status, or another word about whether
// the answer is whole.
//
// CONTRACT F-9, M-3
func TestExchangedSealedValues(t *testing.T) {
	t.Parallel()
	onDatabases(t, []string{"postgres", "sqlite"}, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		st := newStore(t, db, gormstore.Seal(aead(t, "2026-a")))
		type value struct {
			table, column, where string
			unread               func() store.Unread
		}
		var values []value
		for range 2 {
			parked, c := command(store.Park), command(store.Resume)
			answered(t, st, parked)
			where := "id = " + bytesOf(db, parked.ID[:])
			values = append(values, value{"idempotency_record", "body", where, func() store.Unread {
				return try(st.Find(t.Context(), parked.ID, store.Viewer{All: true})).ok(t).Unread()
			}})
			var steps []store.StepRecord
			for _, kind := range []store.StepKind{store.ProviderStep, store.ProviderStep} {
				steps = append(steps, store.StepRecord{Name: fmt.Sprintf("step-%d", len(steps)), Kind: kind, Finished: true, Result: []byte(`"1"`)})
			}
			resumed(t, st, c, store.Seal{Steps: steps})
			for _, step := range steps {
				where := fmt.Sprintf("record_id = %s AND name = '%s'", bytesOf(db, c.ID[:]), step.Name)
				values = append(values, value{"idempotency_step", "result", where, func() store.Unread {
					for _, there := range try(st.Steps(t.Context(), c.ID)).ok(t) {
						if there.Name == step.Name {
							return there.Unread
						}
					}
					return store.Lost
				}})
			}
		}
		read := func(v value) []byte {
			var box []byte
			require.NoError(t, db.Raw("SELECT "+v.column+" FROM "+v.table+" WHERE "+v.where).Row().Scan(&box))
			return box
		}
		write := func(v value, box []byte) {
			require.NoError(t, db.Exec("UPDATE "+v.table+" SET "+v.column+" = ? WHERE "+v.where, box).Error)
		}
		for i, a := range values {
			require.Equal(t, store.Readable, a.unread())
			for _, b := range values[i+1:] {
				one, other := read(a), read(b)
				write(a, other)
				write(b, one)
				require.Equal(t, store.Unreadable, a.unread(), "%v and %v", a, b)
				require.Equal(t, store.Unreadable, b.unread())
				write(a, one)
				write(b, other)
				require.Equal(t, store.Readable, b.unread())
			}
		}
		execute(t, db, "UPDATE idempotency_step SET kind = 1")
		require.Equal(t, store.Unreadable, values[1].unread())
		for _, change := range []string{"status = 200", "partial = true"} {
			execute(t, db, "UPDATE idempotency_record SET "+change+" WHERE "+values[0].where)
			require.Equal(t, store.Unreadable, values[0].unread(), change)
			execute(t, db, "UPDATE idempotency_record SET status = 201, partial = false WHERE "+values[0].where)
		}
		require.Equal(t, store.Readable, values[0].unread())
	})
}

// bytesOf writes bytes in SQL.
func bytesOf(db *gorm.DB, b []byte) string {
	if db.Name() == "sqlite" {
		return fmt.Sprintf("x'%x'", b)
	}
	return fmt.Sprintf(`'\x%x'::bytea`, b)
}

// What cannot be sealed is never recorded in plain, however the AEAD fails: in Rollback nothing is applied, elsewhere the
// status alone is recorded.
//
// CONTRACT F-9, R-4, X-13
func TestAnswerThatCannotBeSealed(t *testing.T) {
	t.Parallel()
	onDatabases(t, []string{"postgres", "sqlite"}, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		f := &faulty{AEAD: aead(t, "2026-a")}
		st := newStore(t, db, gormstore.Seal(f))
		hang := make(chan struct{})
		defer close(hang)
		for name, fail := range map[string]func() ([]byte, error){
			"hangs":   func() ([]byte, error) { <-hang; return nil, nil },
			"fails":   func() ([]byte, error) { return nil, errors.New("no key") },
			"panics":  func() ([]byte, error) { panic("key") },
			"nothing": func() ([]byte, error) { return nil, nil },
		} {
			for _, recovery := range []core.Recovery{core.Rollback, core.Resume, core.Park} {
				var events []core.Event
				m := try(core.New(core.Config{Store: st, Policy: core.Policy{Recovery: recovery, Deadline: 2 * time.Second},
					Observer: core.ObserverFunc(func(_ context.Context, e core.Event) { events = append(events, e) })})).ok(t)
				for _, status := range []int{http.StatusCreated, http.StatusPaymentRequired} {
					rows, key, begun := countEffects(t, db), rand.Text(), time.Now()
					send := func() *httptest.ResponseRecorder {
						return serve(t, m, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							if recovery == core.Rollback {
								_ = addEffect(r.Context())
							}
							f.fail.Store(&fail)
							w.WriteHeader(status)
							_, _ = w.Write([]byte(iban))
						}))
					}
					events = nil
					first := send()
					f.fail.Store(nil)
					require.Less(t, time.Since(begun), 5*time.Second)
					require.NotContains(t, tables(t, db), "DE89")
					switch recovery {
					case core.Rollback:
						require.Equal(t, http.StatusServiceUnavailable, first.Code, "%s: %s", name, first.Body)
						require.Contains(t, first.Body.String(), "rolled_back")
						require.Equal(t, rows, countEffects(t, db))
					default:
						require.Equal(t, status, first.Code)
						require.Equal(t, "created", first.Header().Get("Idempotency-Result"))
						require.Equal(t, iban, first.Body.String())
						told := slices.IndexFunc(events, func(e core.Event) bool { return errors.Is(e.Err, store.ErrUnsealed) })
						require.GreaterOrEqual(t, told, 0, "%v", events)
						require.Equal(t, core.EventFailed, events[told].Kind)
						require.Equal(t, status, events[told].Status)
						again := serve(t, m, key, http.NotFoundHandler())
						require.Equal(t, http.StatusConflict, again.Code, again.Body)
						require.Contains(t, again.Body.String(), "response_not_replayable")
						require.Contains(t, again.Body.String(), fmt.Sprint(status))
					}
				}
			}
		}
	})
}

// The answer of a Resume attempt is sealed behind the results of its calls. Where only the answer fails, its status alone is
// recorded; where a result does, the call is unfinished, and the next attempt makes it again.
//
// CONTRACT F-9, R-4, X-3
func TestResultThatCannotBeSealed(t *testing.T) {
	t.Parallel()
	onDatabases(t, []string{"postgres", "sqlite"}, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		f := &faulty{AEAD: aead(t, "2026-a")}
		a := newStepApp(t, newStore(t, db, gormstore.Seal(f)))
		calls := 0
		fail := func() ([]byte, error) { return nil, errors.New("no key") }
		charge := func(ctx context.Context) error {
			_, err := core.Call(ctx, "charge", func(context.Context, core.DerivedKey) (string, error) { calls++; return iban, nil },
				core.Dedup(time.Hour))
			f.fail.Store(&fail)
			return err
		}
		first := a.post(charge)
		f.fail.Store(nil)
		require.Equal(t, http.StatusInternalServerError, first.Code, first.Body)
		require.Contains(t, first.Body.String(), "call_unfinished")
		require.Equal(t, "unknown", first.Header().Get("Idempotency-Result"))
		require.Equal(t, 1, calls)
		require.Equal(t, 0, query[int](t, db, "SELECT count(*) FROM idempotency_step WHERE state = 2"))
		require.NotContains(t, tables(t, db), "DE89")

		f.fail.Store(nil)
		second := a.post(func(ctx context.Context) error {
			err := charge(ctx)
			f.fail.Store(nil)
			if err == nil {
				err = core.Checkpoint(ctx)
			}
			f.fail.Store(&fail)
			return err
		})
		f.fail.Store(nil)
		requireRecorded(t, second)
		require.Equal(t, 2, calls)
		again := a.post(charge)
		require.Contains(t, again.Body.String(), "response_not_replayable")
		require.NotContains(t, tables(t, db), "DE89")
	})
}

// A row that an instance cannot open is 503 for its repeat, which runs nothing, and stops nothing else: neither a list, nor
// a sweep, nor an erasure, nor an operator's page. With a key that is named as lost, a completed command is
// response_not_replayable, and a Resume operation with such a step is parked.
//
// CONTRACT F-9, H-4, M-5, X-10
func TestRowThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	onDatabases(t, []string{"postgres", "sqlite"}, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db := open(t)
		st := asked(t, try(gormstore.New(db, gormstore.Seal(aead(t, "2026-a")))).ok(t))
		for recovery, send := range sealedCommands(t, st) {
			requireRecorded(t, send("sealed-"+recovery.String()))
		}
		half := newStepApp(t, st)
		handle := func(fail error) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				_, err := core.Call(ctx, "charge", func(context.Context, core.DerivedKey) (string, error) { return iban, nil },
					core.Dedup(time.Hour))
				return errors.Join(err, core.Checkpoint(ctx), fail)
			}
		}
		require.Equal(t, http.StatusInternalServerError, half.post(handle(errors.New("later"))).Code)
		require.NoError(t, st.Close())
		never := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it runs") })

		for _, options := range [][]gormstore.Option{nil, {gormstore.Unseal(aead(t, "2027-a"))}, {gormstore.Seal(&faulty{AEAD: aead(t, "2027-a")})}} {
			st = asked(t, try(gormstore.New(db, options...)).ok(t))
			for range 2 { // of a key that this instance has seen, too
				for recovery := range sealedCommands(t, st) {
					m := newModule(t, st, core.Policy{Recovery: recovery})
					w := serve(t, m, "sealed-"+recovery.String(), never)
					require.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body)
					require.Contains(t, w.Body.String(), "store_unavailable")
					require.NotEmpty(t, w.Header().Get("Retry-After"))
					other := serveAs(t, m, alice, "sealed-"+recovery.String(), `{"amount":"2.00"}`, never)
					require.Equal(t, http.StatusServiceUnavailable, other.Code, "nothing is told: %s", other.Body)
				}
			}
			advance(t, db, time.Hour) // behind the pause
			w := newStepApp(t, st).post(func(context.Context) error { t.Error("it runs"); return nil })
			require.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body)
			require.Len(t, try(st.List(t.Context(), store.Query{Resumable: true, Limit: 10})).ok(t), 1)
			require.NoError(t, err2(st.Sweep(t.Context(), 10, store.Window{})))
			require.NoError(t, st.Close())
		}

		st = newStore(t, db, gormstore.Lost("2026-a"))
		for recovery := range sealedCommands(t, st) {
			w := serve(t, newModule(t, st, core.Policy{Recovery: recovery}), "sealed-"+recovery.String(), never)
			require.Equal(t, http.StatusConflict, w.Code, w.Body)
			require.Contains(t, w.Body.String(), "response_not_replayable")
		}
		advance(t, db, time.Hour) // behind the pause
		w := newStepApp(t, st).post(func(context.Context) error { t.Error("it runs"); return nil })
		require.Equal(t, http.StatusConflict, w.Code, w.Body)
		require.Contains(t, w.Body.String(), "outcome_unknown")
		require.Len(t, try(st.List(t.Context(), store.Query{Unknown: true, Limit: 10})).ok(t), 1)

		advance(t, db, store.DefaultRetention)
		w = serve(t, newModule(t, st, core.Policy{Recovery: core.Park}), "sealed-Park", never)
		require.Contains(t, w.Body.String(), "key_expired", "swept or not")
		require.Equal(t, 3, sweep(t, st, 10).Tombstones)
		w = serve(t, newModule(t, st, core.Policy{Recovery: core.Park}), "sealed-Park", never)
		require.Contains(t, w.Body.String(), "key_expired")
	})
}

// An answer is sealed once. These bytes are what is read back after a COMMIT whose answer was lost, and what is sent again.
//
// CONTRACT F-9, X-4, R-2
func TestSealedOnce(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		f := &faulty{AEAD: aead(t, "2026-a")}
		cut := newCuttable(t, way, gormstore.Seal(f))
		direct := newStore(t, cut.db, gormstore.Unseal(aead(t, "2026-a")))

		c := command(store.Rollback)
		before := f.encrypts.Load()
		lost, done := once(func(toServer bool, chunk []byte) bool { return !toServer && isCommitted(chunk) })
		cut.begins(lost)
		require.NoError(t, <-commit(t, cut.store, c, 30*time.Second), "it is read back")
		require.True(t, done.Load())
		require.Equal(t, before+1, f.encrypts.Load())
		requireCompleted(t, direct, c, paid())

		cut.begins(nil)
		parked := command(store.Park)
		ticket := won(t, cut.store, parked)
		before = f.encrypts.Load()
		lost, done = once(func(toServer bool, chunk []byte) bool { return !toServer && bytes.Contains(chunk, []byte("UPDATE 1")) })
		cut.set(lost)
		err := cut.store.End(t.Context(), ticket, store.Ending{State: store.Completed, Answer: paid()})
		require.True(t, done.Load())
		require.Error(t, err)
		cut.set(nil)
		sent := query[string](t, cut.db, "SELECT encode(body, 'hex') FROM idempotency_record WHERE state = 2 AND recovery = 3")
		require.NoError(t, cut.store.End(t.Context(), ticket, store.Ending{State: store.Completed, Answer: paid()}))
		require.Equal(t, before+1, f.encrypts.Load(), "sent again as it was")
		require.Equal(t, sent, query[string](t, cut.db, "SELECT encode(body, 'hex') FROM idempotency_record WHERE state = 2 AND recovery = 3"))
		requireCompleted(t, direct, parked, paid())
	})
}

// panicsAtName cannot say which key has sealed an answer.
type panicsAtName struct{ gormstore.AEAD }

func (panicsAtName) KeyName([]byte) (string, bool) { panic("the key is 42") }

// An app's function that panics does not end what asks.
//
// CONTRACT F-9
func TestKeyNamePanics(t *testing.T) {
	db := newPostgres(t, 3)
	a := aead(t, "2026-a")
	c := command(store.Park)
	answered(t, newStore(t, db, gormstore.Seal(a)), c)
	st := unasked(t, db, gormstore.Unseal(panicsAtName{a}), gormstore.Lost("2025-a"))
	require.NotPanics(t, func() { _, _ = st.Find(t.Context(), c.ID, store.Viewer{All: true}) })
}
