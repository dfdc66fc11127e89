package core_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// keyAt returns a new UUIDv7 that was made at t.
func keyAt(t time.Time) string {
	var u [16]byte
	binary.BigEndian.PutUint64(u[:], uint64(t.UnixMilli())<<16)
	rand.Read(u[6:])
	u[6], u[8] = u[6]&0x0f|0x70, u[8]&0x3f|0x80
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// ago is the key of a while ago.
func ago(d time.Duration) string { return keyAt(time.Now().Add(-d)) }

// timedKeys is a configuration with timed keys of an age.
func timedKeys(store core.Store, age time.Duration, edits ...func(*core.Config)) core.Config {
	cfg := core.Config{Store: store, Policy: core.Policy{Recovery: core.Park, KeyFormat: core.TimedKey, KeyAge: age}}
	for _, edit := range edits {
		edit(&cfg)
	}
	return cfg
}

// requireTooOld requires that keys are refused for their age.
func (a *app) requireTooOld(keys ...string) {
	a.t.Helper()
	for _, key := range keys {
		w := a.post(key, `{}`)
		requireProblem(a.t, w, http.StatusConflict, core.CodeKeyTooOld)
		require.Contains(a.t, w.Body.String(), `"safe_new_key":false`)
		require.Contains(a.t, w.Body.String(), `"operation":"`+idOf(key)+`"`, "money rows carry it")
		require.NotContains(a.t, w.Body.String(), key)
		require.Empty(a.t, w.Header().Get("Retry-After"))
		require.Equal(a.t, []string{key}, w.Header()["Idempotency-Key"])
	}
}

// drop lets time pass and sweeps until nothing is left to do.
func drop(t *testing.T, st core.Store) {
	t.Helper()
	for range 3 {
		_, err := st.Sweep(t.Context(), 1000, store.Window{})
		require.NoError(t, err)
	}
}

// CONTRACT T-6, K-3, T-5, T-2, M-3, M-5, R-6, X-7
func TestTimedKeys(t *testing.T) {
	t.Run("timed keys are UUIDv7", func(t *testing.T) {
		a := newApp(t, timedKeys(memstore.New(), 0), created)
		key := ago(0)
		for _, bad := range []string{
			"order-1", key[:14] + "4" + key[15:], key[:19] + "c" + key[20:], strings.ReplaceAll(key, "-", ""), "{" + key + "}",
			strings.ToUpper(key),
		} {
			requireProblem(t, a.post(bad, `{}`), http.StatusBadRequest, core.CodeKeyInvalid)
		}
		requireCreated(t, a.post(key, `{}`), "created")
		requireCreated(t, a.post(`"`+key+`"`, `{}`), "reused")
		require.Equal(t, 24*time.Hour, store.DefaultKeyAge)
	})
	inBubble(t, "the age counts to the millisecond, at both ends", func(t *testing.T) {
		a := newApp(t, timedKeys(memstore.New(), 2*time.Hour), created)
		requireCreated(t, a.post(ago(2*time.Hour), `{}`), "created")
		requireCreated(t, a.post(ago(-5*time.Minute), `{}`), "created")
		a.requireTooOld(ago(2*time.Hour + time.Millisecond))
		w := a.post(ago(-5*time.Minute-time.Millisecond), `{}`)
		requireProblem(t, w, http.StatusBadRequest, core.CodeKeyInvalid)
		require.NotContains(t, w.Body.String(), "operation")
		require.Equal(t, 2, a.ran())
		var codes []core.Code
		for _, e := range a.of(core.EventRefused) {
			codes = append(codes, e.Code)
		}
		require.Equal(t, []core.Code{core.CodeKeyTooOld, core.CodeKeyInvalid}, codes)
	})
	// What was ahead may come in time, and what is in time gets too old: both clocks must take the key. Where they are too
	// far apart, neither judges.
	inBubble(t, "key age by both clocks", func(t *testing.T) {
		clock := &drifting{}
		a := newApp(t, timedKeys(memstore.New(memstore.WithClock(clock.now)), 2*time.Hour), created)
		known := ago(2 * time.Hour)
		requireCreated(t, a.post(known, `{}`), "created")
		for _, off := range []time.Duration{30 * time.Minute, -30 * time.Minute} {
			clock.by(off)
			by := max(off, 0) // the clock that is ahead
			a.requireTooOld(ago(2*time.Hour - by + time.Millisecond))
			requireCreated(t, a.post(ago(2*time.Hour-by), `{}`), "created")
			behind := min(off, 0)
			requireProblem(t, a.post(ago(-behind-5*time.Minute-time.Millisecond), `{}`), http.StatusBadRequest, core.CodeKeyInvalid)
			requireCreated(t, a.post(ago(-behind-5*time.Minute), `{}`), "created")
		}
		ran := a.ran()
		for _, off := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
			clock.by(off)
			requireProblem(t, a.post(ago(0), `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
			requireProblem(t, a.post(ago(100*time.Hour), `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
			requireCreated(t, a.post(known, `{}`), "reused")
		}
		require.Equal(t, ran, a.ran())
	})
	// A repeat waits for an attempt that comes to nothing. Meanwhile its key gets too old by the app's clock, and it is not run.
	inBubble(t, "key that gets too old while its repeat waits", func(t *testing.T) {
		clock, leave := &drifting{}, make(chan struct{})
		clock.by(-30 * time.Minute)
		cfg := timedKeys(memstore.New(memstore.WithClock(clock.now)), 2*time.Hour)
		cfg.Policy.Wait = 10 * time.Second
		a := newApp(t, cfg, func(w http.ResponseWriter, r *http.Request) {
			<-leave
			notApplied(status(http.StatusServiceUnavailable))(w, r)
		})
		key := ago(2*time.Hour - time.Second)
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { a.post(key, `{}`) })
		synctest.Wait()
		wg.Go(func() { time.Sleep(2 * time.Second); close(leave) })
		a.requireTooOld(key)
		require.Equal(t, 1, a.ran())
	})
	// A repeat at the very edge of the age is run once, and answered for as long as its answer is kept. Then it is refused
	// for good: no tombstone is left, and none is needed.
	inBubble(t, "timed key through its life", func(t *testing.T) {
		clock := &drifting{}
		st := memstore.New(memstore.WithClock(clock.now))
		a := newApp(t, timedKeys(st, 2*time.Hour), created)
		key := ago(2 * time.Hour)
		requireCreated(t, a.post(key, `{}`), "created")
		time.Sleep(time.Millisecond)
		requireCreated(t, a.post(key, `{}`), "reused")
		requireProblem(t, a.post(key, `{"other":1}`), http.StatusConflict, core.CodeKeyReused)
		time.Sleep(store.DefaultRetention - 2*time.Millisecond)
		requireCreated(t, a.post(key, `{}`), "reused")
		time.Sleep(time.Millisecond)
		a.requireTooOld(key)
		requireProblem(t, a.operation(alice, idOf(key)), http.StatusNotFound, core.CodeNotFound)
		drop(t, st)
		_, err := st.Find(t.Context(), core.Scoping{}.RecordID(alice, key), store.Viewer{All: true})
		require.ErrorIs(t, err, core.ErrNotFound)
		a.requireTooOld(key)
		for range 3 { // the store's clock goes back, as far as it may
			clock.by(-core.DefaultMaxClockSkew)
			a.requireTooOld(key)
		}
		require.Equal(t, 1, a.ran())
	})
	// However wrong the clocks are later, a key whose record was swept never runs again: the floor is no matter of a clock.
	inBubble(t, "swept keys and clocks that go back", func(t *testing.T) {
		clock := &drifting{}
		st := memstore.New(memstore.WithClock(clock.now))
		cfg := timedKeys(st, time.Hour, func(c *core.Config) { c.Now = clock.now })
		a := newApp(t, cfg, created)
		key := ago(0)
		requireCreated(t, a.post(key, `{}`), "created")
		time.Sleep(store.DefaultRetention)
		drop(t, st)
		clock.by(-store.DefaultRetention) // the store's and the app's together
		a.requireTooOld(key)
		requireCreated(t, a.post(keyAt(clock.now().Add(time.Second)), `{}`), "created")
	})
	inBubble(t, "a freed key may be used again as long as it is young enough", func(t *testing.T) {
		store := memstore.New()
		a := newApp(t, timedKeys(store, time.Hour), notApplied(status(http.StatusTooManyRequests)))
		again, late, settled := ago(0), ago(0), ago(0)
		require.Equal(t, http.StatusTooManyRequests, a.post(again, `{}`).Code)
		require.Equal(t, http.StatusTooManyRequests, a.post(late, `{}`).Code)
		a.handler = status(http.StatusBadGateway)
		a.post(settled, `{}`)
		a.handler = created
		time.Sleep(time.Hour)
		requireCreated(t, a.post(again, `{}`), "created")
		time.Sleep(time.Millisecond)
		a.requireTooOld(late)
		a.settle(settled, nil)
		a.requireTooOld(settled)
		requireCreated(t, a.post(again, `{}`), "reused")
	})
	// Routes with different ages share a floor: what is kept for the longest is answered on every route, and no young key of
	// the longest is refused because of the shortest.
	inBubble(t, "routes with different key ages", func(t *testing.T) {
		store := memstore.New()
		a := newApp(t, core.Config{Store: store, Policy: core.Policy{KeyFormat: core.TimedKey}, Routes: core.Routes{
			"POST " + pattern: {Recovery: core.Park, KeyAge: time.Hour, Retention: 24 * time.Hour},
			"POST /slow":      {Recovery: core.Park, KeyAge: 60 * time.Hour},
		}}, created)
		a.pattern = "/slow"
		requireCreated(t, a.post(ago(-time.Minute), `{}`), "created") // from now on the ages are kept
		a.pattern = pattern
		key := ago(0)
		requireCreated(t, a.post(key, `{}`), "created")
		time.Sleep(61 * time.Hour)
		drop(t, store)
		requireProblem(t, a.post(key, `{}`), http.StatusConflict, core.CodeKeyExpired)
		a.requireTooOld(ago(time.Hour + time.Millisecond))
		a.pattern = "/slow"
		requireCreated(t, a.post(ago(60*time.Hour), `{}`), "created")
		a.pattern = pattern
		time.Sleep(2 * time.Hour) // 60 h + 2 h + 5 min + 1 min since it was answered
		drop(t, store)
		a.requireTooOld(key)
		a.pattern = "/slow"
		a.requireTooOld(key)
		requireCreated(t, a.post(ago(60*time.Hour), `{}`), "created")
	})
	inBubble(t, "a settlement keeps the record of a timed key for as long as an attempt's answer would have", func(t *testing.T) {
		st := memstore.New()
		a := newApp(t, core.Config{Store: st, Policy: core.Policy{KeyFormat: core.TimedKey}, Routes: core.Routes{
			"POST " + pattern: {Recovery: core.Park, KeyAge: time.Hour, Retention: 24 * time.Hour},
			"POST /slow":      {Recovery: core.Park, KeyAge: 60 * time.Hour},
		}}, status(http.StatusBadGateway))
		kept := func(key string) time.Duration {
			rec := find(t, st, key)
			return rec.PurgeAt.Sub(rec.ExpiresAt)
		}
		lost := ago(0)
		require.Equal(t, http.StatusBadGateway, a.post(lost, `{}`).Code)
		time.Sleep(store.DefaultDeadline)
		a.settle(lost, &core.Answer{Status: http.StatusCreated})
		a.handler = created
		answered := ago(0)
		requireCreated(t, a.post(answered, `{}`), "created")
		require.Equal(t, kept(answered), kept(lost))
		require.Less(t, kept(lost), store.MaxRetention)

		// Also if the route takes other keys by then.
		a.handler = status(http.StatusBadGateway)
		lost = ago(0)
		require.Equal(t, http.StatusBadGateway, a.post(lost, `{}`).Code)
		time.Sleep(store.DefaultDeadline)
		left := newApp(t, core.Config{Store: st, Routes: core.Routes{
			"POST " + pattern: {Recovery: core.Park, Retention: 24 * time.Hour, Tombstone: store.MinRetention},
			"POST /slow":      {Recovery: core.Park, KeyFormat: core.TimedKey, KeyAge: 60 * time.Hour},
		}}, created)
		left.settle(lost, &core.Answer{Status: http.StatusCreated})
		require.Equal(t, kept(answered), kept(lost))
	})
}

// CONTRACT T-6
func TestPoliciesOfTimedKeysThatChange(t *testing.T) {
	// A longer age holds for keys that are made from then on. What was too old before stays so, and is never run.
	inBubble(t, "raised key age", func(t *testing.T) {
		store := memstore.New()
		day := func(c *core.Config) { c.Policy.Retention = 24 * time.Hour }
		before := newApp(t, timedKeys(store, time.Hour, day), created)
		swept, late := ago(0), ago(0)
		requireCreated(t, before.post(swept, `{}`), "created")
		time.Sleep(25 * time.Hour)
		drop(t, store)
		before.requireTooOld(swept, late)

		after := newApp(t, timedKeys(store, 40*time.Hour), created)
		unused := ago(30 * time.Minute)
		after.requireTooOld(swept, late, ago(time.Hour+time.Millisecond))
		requireCreated(t, after.post(ago(time.Hour), `{}`), "created")
		time.Sleep(time.Minute)
		older := ago(0)
		time.Sleep(30 * time.Minute)
		after.requireTooOld(unused)
		requireCreated(t, before.post(older, `{}`), "created") // an instance of before is still there
		time.Sleep(29 * time.Hour)
		drop(t, store) // of what that one has recorded
		after.requireTooOld(older)
		younger := ago(29 * time.Hour)
		requireCreated(t, after.post(younger, `{}`), "created")
		again := newApp(t, timedKeys(store, 40*time.Hour), created) // a restart changes nothing
		requireCreated(t, again.post(ago(29*time.Hour), `{}`), "created")
		again.requireTooOld(unused)
		require.Equal(t, 1, again.ran())
	})
	inBubble(t, "a shorter age holds at once", func(t *testing.T) {
		store := memstore.New()
		before := newApp(t, timedKeys(store, 10*time.Hour), created)
		requireCreated(t, before.post(ago(5*time.Hour), `{}`), "created")
		after := newApp(t, timedKeys(store, time.Hour), created)
		key := ago(5 * time.Hour)
		after.requireTooOld(key)
		requireCreated(t, after.post(ago(time.Hour), `{}`), "created")
	})
	// A route that takes any key again knows what it has answered while its keys were timed, and still refuses what was too
	// old until then.
	inBubble(t, "leaving timed keys", func(t *testing.T) {
		st := memstore.New()
		before := newApp(t, timedKeys(st, time.Hour), created)
		swept, parked := ago(0), ago(0)
		requireCreated(t, before.post(swept, `{}`), "created")
		before.handler = status(http.StatusBadGateway)
		before.post(parked, `{}`)
		time.Sleep(store.DefaultRetention)
		drop(t, st)

		after := newApp(t, core.Config{Store: st}, created)
		after.requireTooOld(swept)
		requireProblem(t, after.post(parked, `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
		requireCreated(t, after.post("order-1", `{}`), "created")
		refused, inTime := ago(time.Hour+time.Millisecond), ago(time.Hour)
		after.requireTooOld(refused, ago(50*time.Hour))
		requireCreated(t, after.post(inTime, `{}`), "created")
		inTime = ago(time.Hour)
		time.Sleep(time.Hour)
		restarted := newApp(t, core.Config{Store: st}, created)
		requireCreated(t, restarted.post(inTime, `{}`), "created")
		restarted.requireTooOld(refused)
		require.Equal(t, 3, after.ran()+restarted.ran())

		after.settle(parked, &core.Answer{Status: http.StatusOK})
		time.Sleep(store.DefaultRetention)
		requireProblem(t, after.post(parked, `{}`), http.StatusConflict, core.CodeKeyExpired)
		time.Sleep(store.DefaultTombstone)
		drop(t, st)
		after.requireTooOld(parked)
	})
	// A route that comes back to timed keys takes none that were refused before it left, nor any that were too old for its
	// first age: whether those ran in between, no floor of the service tells.
	inBubble(t, "coming back to timed keys", func(t *testing.T) {
		store := memstore.New()
		before := newApp(t, timedKeys(store, time.Hour), created)
		refused := ago(time.Hour + time.Millisecond)
		before.requireTooOld(refused)
		between := newApp(t, core.Config{Store: store}, created)
		between.requireTooOld(refused)
		time.Sleep(2 * time.Hour)
		after := newApp(t, timedKeys(store, 50*time.Hour), created)
		after.requireTooOld(refused, ago(time.Hour+time.Millisecond))
		young := ago(0)
		requireCreated(t, after.post(ago(time.Hour), `{}`), "created")
		time.Sleep(50 * time.Hour)
		requireCreated(t, after.post(young, `{}`), "created")
	})
	inBubble(t, "a route that begins with timed keys takes none of those whose tombstones may be gone", func(t *testing.T) {
		store := memstore.New()
		before := newApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Park, Retention: 24 * time.Hour,
			Tombstone: 24 * time.Hour}}, created)
		key := ago(0)
		requireCreated(t, before.post(key, `{}`), "created")
		time.Sleep(49 * time.Hour)
		drop(t, store)
		after := newApp(t, timedKeys(store, 60*time.Hour), created)
		after.requireTooOld(key)
		requireCreated(t, after.post(ago(24*time.Hour), `{}`), "created")
		require.Equal(t, 1, after.ran())
	})
}

// The keys that were too old at a moment are all up to one time, whenever the age was changed before.
//
// CONTRACT T-6
func TestAgeLimitWhenARouteLeaves(t *testing.T) {
	t0 := time.UnixMilli(1733706358638)
	at := func(h float64) time.Time { return t0.Add(time.Duration(h * float64(time.Hour))) }
	require.Zero(t, store.AgeLimit{}.Next(0, t0))
	require.Zero(t, store.AgeLimit{}.Floor())
	raised := store.AgeLimit{}.Next(time.Hour, t0).Next(10*time.Hour, at(2))
	require.Zero(t, raised.Floor())
	for name, tt := range map[string]struct{ left, floor float64 }{
		"the age of before":      {2.5, 1.5},
		"up to the longer age":   {3.5, 2},
		"still":                  {12, 2},
		"the age of the present": {12.5, 2.5},
	} {
		t.Run(name, func(t *testing.T) {
			left := raised.Next(0, at(tt.left))
			require.Equal(t, at(tt.left), left.Left)
			require.Equal(t, at(tt.floor).Add(-time.Nanosecond), left.Floor())
			require.Equal(t, left, left.Next(0, at(tt.left+1)))
		})
	}
}

// Each change of a policy keeps what earlier policies have refused, for as long as a key from before can be sent.
//
// CONTRACT T-6
func TestAgeLimitAfterAChangeOfThePolicy(t *testing.T) {
	t0 := time.UnixMilli(1733706358638)
	at := func(h int) time.Time { return t0.Add(time.Duration(h) * time.Hour) }
	const h = time.Hour
	k := store.AgeLimit{Age: 10 * h, Since: at(2), Before: h}
	left := store.AgeLimit{Age: 10 * h, Since: at(2), Before: h, Left: at(20)}
	for name, tt := range map[string]struct {
		kept store.AgeLimit
		age  time.Duration
		now  int
		want store.AgeLimit
	}{
		"the first":                           {store.AgeLimit{}, h, 0, store.AgeLimit{Age: h, Since: at(0), Before: h}},
		"the first, long":                     {store.AgeLimit{}, 48 * h, 0, store.AgeLimit{Age: 48 * h, Since: at(0), Before: 24 * h}},
		"the same":                            {k, 10 * h, 5, k},
		"shorter":                             {k, 5 * h, 5, store.AgeLimit{Age: 5 * h, Since: at(2), Before: h}},
		"shorter than the one before":         {k, h / 2, 5, store.AgeLimit{Age: h / 2, Since: at(2), Before: h / 2}},
		"longer, soon":                        {k, 20 * h, 73, store.AgeLimit{Age: 20 * h, Since: at(73), Before: h}},
		"longer, after store.MaxRetention":    {k, 20 * h, 74, store.AgeLimit{Age: 20 * h, Since: at(74), Before: 10 * h}},
		"gone":                                {k, 0, 20, left},
		"back":                                {left, 48 * h, 30, store.AgeLimit{Age: 48 * h, Since: at(30), Before: h}},
		"back, as it was":                     {left, 10 * h, 30, store.AgeLimit{Age: 10 * h, Since: at(30), Before: h}},
		"back, shorter":                       {left, h / 2, 30, store.AgeLimit{Age: h / 2, Since: at(30), Before: h / 2}},
		"back, long after store.MaxRetention": {left, 48 * h, 300, store.AgeLimit{Age: 48 * h, Since: at(300), Before: h}},
	} {
		require.Equal(t, tt.want, tt.kept.Next(tt.age, at(tt.now)), name)
	}
}

// hangingAges is a store that does not end its calls for the ages of keys.
type hangingAges struct{ *memstore.Store }

func (hangingAges) KeepAge(context.Context, []byte, string, time.Duration, store.Window) (store.AgeLimit, error) {
	time.Sleep(time.Hour)
	return store.AgeLimit{}, errAway
}

// Of many requests one asks for the age of keys. The others do not wait for longer than for a claim, and are no wiser: the
// route may have had timed keys, and then a key that was too old must stay refused.
//
// CONTRACT T-6, F-1
func TestAnAgeOfKeysThatDoesNotCome(t *testing.T) {
	eachInBubble(t, map[string]core.Config{
		"timed": timedKeys(hangingAges{memstore.New()}, time.Hour),
		"left":  {Store: hangingAges{memstore.New()}, Policy: core.Policy{Recovery: core.Park}},
	}, func(t *testing.T, cfg core.Config) {
		a := newApp(t, cfg, created)
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { a.post(ago(0), `{}`) })
		synctest.Wait()
		requireProblem(t, a.post(ago(30*time.Minute), `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.Zero(t, a.ran())
	})
}

// clocklessAges is a store whose clock is wrong when it is asked for the ages of keys.
type clocklessAges struct{ *memstore.Store }

func (clocklessAges) KeepAge(context.Context, []byte, string, time.Duration, store.Window) (store.AgeLimit, error) {
	return store.AgeLimit{}, core.ErrClock
}

// Where no clock says how old keys may be, none is judged, be it ahead by a little, and none is run.
//
// CONTRACT T-5, T-6
func TestAnAgeOfKeysByAWrongClock(t *testing.T) {
	inBubble(t, "timed", func(t *testing.T) {
		a := newApp(t, timedKeys(clocklessAges{memstore.New()}, time.Hour), created)
		for _, key := range []string{ago(time.Minute), ago(0), ago(-time.Minute)} {
			requireProblem(t, a.post(key, `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		}
		require.Zero(t, a.ran())
	})
}

// CONTRACT T-6, T-5, M-3
func TestTimedKeysBesideOtherRules(t *testing.T) {
	inBubble(t, "leaving timed keys beside other refusals", func(t *testing.T) {
		store := memstore.New()
		before := newApp(t, timedKeys(store, time.Hour), created)
		requireCreated(t, before.post(ago(0), `{}`), "created")
		after := newApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Park, MaxOpen: 1,
			RefuseRekeyed: true}}, status(http.StatusBadGateway))
		after.post(ago(0), `{}`)
		requireProblem(t, after.post(ago(0), `{"a":1}`), http.StatusTooManyRequests, core.CodeTooManyOpen)
		after.requireTooOld(ago(2 * time.Hour))
	})
	// What a key is too old for is said before the caller is told to come again, or that it is a suspected duplicate.
	inBubble(t, "too old beside other refusals", func(t *testing.T) {
		a := newApp(t, timedKeys(memstore.New(), time.Hour, func(c *core.Config) {
			c.Policy.MaxOpen, c.Policy.RefuseRekeyed = 1, true
		}), status(http.StatusBadGateway))
		unknown := ago(0)
		a.post(unknown, `{}`)
		requireProblem(t, a.post(ago(0), `{"a":1}`), http.StatusTooManyRequests, core.CodeTooManyOpen)
		a.requireTooOld(ago(2 * time.Hour))
		time.Sleep(2 * time.Hour)
		requireProblem(t, a.post(unknown, `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
	})
	inBubble(t, "after a restore every instance refuses what may have been lost", func(t *testing.T) {
		store := memstore.New()
		a, b := newApp(t, timedKeys(store, 5*time.Hour), created), newApp(t, timedKeys(store, 5*time.Hour), created)
		known := ago(0)
		requireCreated(t, a.post(known, `{}`), "created")
		requireCreated(t, b.post(ago(time.Hour), `{}`), "created")
		restored := time.Now()
		require.NoError(t, operations.New(a.module).RefuseKeysBefore(t.Context(), restored))
		lost := ago(time.Millisecond)
		for _, app := range []*app{a, b} {
			app.requireTooOld(lost)
			requireCreated(t, app.post(keyAt(restored), `{}`), "created")
			requireCreated(t, app.post(known, `{}`), "reused")
		}
		require.NoError(t, operations.New(b.module).RefuseKeysBefore(t.Context(), restored.Add(-time.Hour)))
		a.requireTooOld(lost)

		require.ErrorContains(t, operations.New(a.module).RefuseKeysBefore(t.Context(), restored.Add(6*time.Minute)), "ahead")
		for _, off := range []time.Duration{100 * time.Hour, -100 * time.Hour} { // the operator's clock
			wrong := func() time.Time { return time.Now().Add(off) }
			operator := newApp(t, timedKeys(store, 5*time.Hour, func(c *core.Config) { c.Now = wrong }), created)
			require.ErrorIs(t, operations.New(operator.module).RefuseKeysBefore(t.Context(), wrong()), core.ErrClock)
		}
		requireCreated(t, a.post(ago(0), `{}`), "created")

		left := newApp(t, core.Config{Store: store}, created)
		lost = ago(time.Millisecond)
		require.NoError(t, operations.New(left.module).RefuseKeysBefore(t.Context(), time.Now()))
		left.requireTooOld(lost)

		other := newApp(t, core.Config{Store: newFaultStore(memstore.New())}, created)
		require.ErrorContains(t, operations.New(other.module).RefuseKeysBefore(t.Context(), restored), "store.Settings")
	})
	inBubble(t, "timed keys in shadow", func(t *testing.T) {
		a := newApp(t, timedKeys(memstore.New(), time.Hour, func(c *core.Config) {
			c.Policy.ShadowUntil = time.Now().Add(time.Hour)
		}), created)
		for _, key := range []string{ago(0), ago(2 * time.Hour), ago(-time.Hour), "order-1"} {
			require.Equal(t, http.StatusCreated, a.post(key, `{}`).Code)
		}
		var codes []core.Code
		for _, e := range a.of(core.EventWouldRefuse) {
			codes = append(codes, e.Code)
		}
		require.Equal(t, []core.Code{core.CodeKeyTooOld, core.CodeKeyInvalid, core.CodeKeyInvalid}, codes)
		require.Len(t, a.of(core.EventWouldClaim), 1)
	})
	inBubble(t, "a record answers, even while the clocks are too far apart to find out how old keys may be", func(t *testing.T) {
		clock := &drifting{}
		store := memstore.New(memstore.WithClock(clock.now))
		before := newApp(t, timedKeys(store, time.Hour), created)
		key := ago(0)
		requireCreated(t, before.post(key, `{}`), "created")
		clock.by(2 * time.Hour)
		for name, cfg := range map[string]core.Config{
			"raised": timedKeys(store, 2*time.Hour), "left": {Store: store},
		} {
			a := newApp(t, cfg, created)
			requireCreated(t, a.post(key, `{}`), "reused")
			requireProblem(t, a.post(ago(0), `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
			requireProblem(t, a.post(ago(48*time.Hour), `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
			require.Zero(t, a.ran(), name)
			require.Len(t, a.of(core.EventClockSkew), 1, name)
		}
	})
}

// A route without timed keys asks the store once whether it has had them, and only when a key carries a time.
//
// CONTRACT T-6
func TestRoutesWithoutTimedKeysAskOnce(t *testing.T) {
	a := newRowsApp(t, core.Config{}, created)
	asked := a.faults.count("keep age")
	requireCreated(t, a.post("order-1", `{}`), "created")
	require.Zero(t, *asked)
	for range 3 {
		requireCreated(t, a.post(ago(100*time.Hour), `{}`), "created")
	}
	require.Equal(t, 1, *asked)

	t.Run("of several routes", func(t *testing.T) {
		park := core.Policy{Recovery: core.Rollback}
		a := newRowsApp(t, core.Config{Routes: core.Routes{"POST /a": park, "POST /b": park}}, created)
		asked := a.faults.count("keep age")
		for range 3 {
			for _, a.pattern = range []string{"/a", "/b"} {
				requireCreated(t, a.post(ago(time.Hour), `{}`), "created")
			}
		}
		require.Equal(t, 2, *asked, "each once")
	})
}

// CONTRACT T-6, T-2
func TestTimedKeyConfiguration(t *testing.T) {
	type C = *core.Config
	for name, tt := range map[string]struct {
		edit func(C)
		want []string
	}{
		"age":     {func(c C) { c.Policy.KeyAge = time.Second }, []string{"Policy: KeyAge: 1s is shorter than 1m0s"}},
		"default": {func(c C) { c.Policy.Retention = 24 * time.Hour }, []string{"Policy: Retention: 24h0m0s is shorter than 26h6m0s", "KeyAge (24h0m0s)"}},
		"skew":    {func(c C) { c.MaxClockSkew, c.Policy.KeyAge = 12*time.Hour, 48*time.Hour }, []string{"72h6m0s", "2 * MaxClockSkew (12h0m0s)"}},
		"edge":    {func(c C) { c.Policy.KeyAge = 70*time.Hour - 6*time.Minute + 1 }, []string{"Retention: 72h0m0s is shorter"}},
		"table": {func(c C) {
			c.Policy = core.Policy{KeyFormat: core.TimedKey}
			c.Routes = core.Routes{"POST /a": {Recovery: core.Park, KeyAge: 80 * time.Hour}, "POST /b": {Recovery: core.Park}}
		}, []string{`Routes["POST /a"]: Retention: 72h0m0s is shorter than 82h6m0s`}},
		"store": {func(c C) { c.Store = newFaultStore(memstore.New()) }, []string{"TimedKey needs a store", "store.Settings", "use gormstore"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := timedKeys(memstore.New(), 0)
			tt.edit(&cfg)
			_, err := core.New(cfg)
			require.Error(t, err)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "/b")
		})
	}
	newModule(t, timedKeys(memstore.New(), 70*time.Hour-6*time.Minute))
	_, err := core.New(core.Config{Store: newFaultStore(memstore.New()), Policy: core.Policy{KeyAge: 1},
		Routes: core.Routes{"POST /a": {Recovery: core.Park}}})
	require.NoError(t, err, "the age is that of timed keys only")
}

// CONTRACT T-6, F-4
func TestImportsOfTimedKeys(t *testing.T) {
	inBubble(t, "import of timed keys", func(t *testing.T) {
		st := memstore.New()
		a := newApp(t, core.Config{Store: st, Routes: core.Routes{
			"POST " + pattern: {Recovery: core.Park, KeyFormat: core.TimedKey, KeyAge: time.Hour},
		}}, created)
		key, ahead := ago(time.Hour), ago(-100*24*time.Hour)
		done, err := operations.New(a.module).Import(t.Context(), rowsOf(past(key), past(ahead), past("order-1")))
		require.NoError(t, err)
		require.Equal(t, store.Imported{Added: 3}, done)
		require.Equal(t, "paid before", a.post(key, `{}`).Body.String())
		for k, timed := range map[string]bool{key: true, ahead: false, "order-1": false} {
			rec := find(t, st, k)
			require.Equal(t, timed, rec.Timed, k)
		}
		time.Sleep(store.DefaultRetention + store.DefaultTombstone)
		drop(t, st)
		a.requireTooOld(key)
		requireCreated(t, a.post(ago(0), `{}`), "created") // what was ahead is no floor
	})
	// An imported record stays until its key is too old, however short the other table's retention was. A floor that rose
	// earlier would refuse other keys that are young enough.
	inBubble(t, "imported record outlives its key", func(t *testing.T) {
		st := memstore.New()
		a := newApp(t, core.Config{Store: st, Routes: core.Routes{"POST " + pattern: {
			Recovery: core.Park, KeyFormat: core.TimedKey, KeyAge: 60 * time.Hour, Tombstone: store.MinRetention,
		}}}, created)
		requireCreated(t, a.post(ago(0), `{}`), "created") // the age holds from here on
		time.Sleep(3 * time.Hour)
		key, older := ago(time.Hour), ago(2*time.Hour)
		_, err := operations.New(a.module).Import(t.Context(), rowsOf(past(key, func(p *operations.Past) { p.ExpiresAt = time.Now() })))
		require.NoError(t, err)
		time.Sleep(2 * store.MinRetention)
		drop(t, st)
		requireProblem(t, a.post(key, `{}`), http.StatusConflict, core.CodeKeyExpired)
		requireCreated(t, a.post(older, `{}`), "created")
	})
}

// An attempt that outlives the age of its key is in flight, then answered. One that has come to nothing has freed the key,
// which is too old by then.
//
// CONTRACT T-6, M-2, R-7
func TestRollbackOutlivesTheAgeOfItsKey(t *testing.T) {
	off := &drifting{}
	cfg := core.Config{MaxClockSkew: 12 * time.Hour, Now: off.now,
		Policy: core.Policy{KeyFormat: core.TimedKey, KeyAge: time.Hour}}
	each(t, map[string]int{"commits": 201, "is refused": 422, "fails": 500}, func(t *testing.T, want int) {
		off.by(0)
		a := newRowsApp(t, cfg, nil)
		key := ago(0)
		a.handler = func(w http.ResponseWriter, _ *http.Request) {
			off.by(2 * time.Hour)
			a.handler = nil
			requireProblem(t, a.post(key, `{}`), http.StatusConflict, core.CodeInFlight)
			w.WriteHeader(want)
		}
		require.Equal(t, want, a.post(key, `{}`).Code)
		if want == 500 {
			a.requireTooOld(key)
			return
		}
		w := a.post(key, `{}`)
		require.Equal(t, want, w.Code)
		require.Equal(t, "reused", w.Header().Get("Idempotency-Result"))
		rec := find(t, a.store, key)
		require.True(t, rec.Timed)
		require.Equal(t, store.DefaultRetention, rec.ExpiresAt.Sub(rec.CreatedAt).Round(time.Minute), "of a refusal, too")
		require.Equal(t, rec.ExpiresAt, rec.PurgeAt, "no tombstone")
	})
}

// KeepAge implements [store.Settings].
func (s *faultTransactor) KeepAge(ctx context.Context, service []byte, route string, age time.Duration, w store.Window) (store.AgeLimit, error) {
	if err := s.before(ctx, "keep age"); err != nil {
		return store.AgeLimit{}, err
	}
	return s.under.KeepAge(ctx, service, route, age, w)
}

// KeepScoping implements [store.Settings].
func (s *faultTransactor) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	return s.under.KeepScoping(ctx, namespace, fingerprint)
}

// AdoptScoping implements [store.Settings].
func (s *faultTransactor) AdoptScoping(ctx context.Context, namespace, fingerprint string) error {
	return s.under.AdoptScoping(ctx, namespace, fingerprint)
}

// RefuseKeysBefore implements [store.Settings].
func (s *faultTransactor) RefuseKeysBefore(ctx context.Context, service []byte, r store.Refusal) error {
	return s.under.RefuseKeysBefore(ctx, service, r)
}

// Nothing is run as long as it is not known how old keys may be.
//
// CONTRACT T-6, F-1
func TestNoTimedKeysWithoutTheirAge(t *testing.T) {
	a := newRowsApp(t, core.Config{Policy: core.Policy{KeyFormat: core.TimedKey}}, created)
	a.faults.on("keep age", func(context.Context) error { return core.ErrClock })
	requireProblem(t, a.post(ago(0), `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
	require.Len(t, a.of(core.EventClockSkew), 1)
	a.faults.on("keep age", func(context.Context) error { return context.DeadlineExceeded })
	requireProblem(t, a.post(ago(0), `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
	require.Len(t, a.of(core.EventFailed), 1)
	require.Zero(t, a.ran())
	a.faults.on("keep age", nil)
	requireCreated(t, a.post(ago(0), `{}`), "created")
}
