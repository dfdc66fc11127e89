package storetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/storetest"
)

// A suite that cannot fail proves nothing. Each mutant is a store with one fault, and names the test that must find it.
// That test fails, so it runs in a process of its own.
var mutants = map[string]mutantOf[store.Store, store.Store]{
	"looks before it claims":      {"Claim/OneOfManyWins", func(s store.Store) store.Store { return checkThenAct{s} }},
	"locks others out of the row": {"Claim/FirstWins", func(s store.Store) store.Store { return alwaysBusy{s} }},
	"keeps one value per header":  {"Claim/RoundTrip", func(s store.Store) store.Store { return oneValue{s} }},
	"keeps headers as JSON":       {"Claim/RoundTrip", func(s store.Store) store.Store { return jsonHeader{s} }},
	"runs Park again":             {"Claim/ParkNeverAgain", func(s store.Store) store.Store { return takesOver{s, isPark} }},
	"takes over any command":      {"TakeOver/Refused", func(s store.Store) store.Store { return takesOver{s, isOtherHash} }},
	"takes over for any recovery": {"TakeOver/Refused", func(s store.Store) store.Store { return takesOver{s, isOtherRecovery} }},
	"takes over early":            {"TakeOver/Resume", func(s store.Store) store.Store { return takesOver{s, isAlive} }},
	"releases for anybody":        {"Release/OfAnother", func(s store.Store) store.Store { return releasesForAnybody{s} }},
	"releases what is done":       {"Release/NotRunning", func(s store.Store) store.Store { return releasesAnything{s} }},
	"refuses late releases":       {"Release/Late", func(s store.Store) store.Store { return punctual{s} }},
	"wants a fence to release":    {"Release/ByOwnerAlone", func(s store.Store) store.Store { return wantsFence{s} }},
	"frees finished steps":        {"Release/ByOwnerAlone", func(s store.Store) store.Store { return freesSteps{s} }},
	"lands cancelled claims":      {"Release/AfterLostClaim", func(s store.Store) store.Store { return &landsLate{Store: s} }},
	"starts fences anew":          {"Settle/OldDecision", func(s store.Store) store.Store { return newFences{s} }},
	"completes by the fence only": {"Complete/Stale", func(s store.Store) store.Store { return fenceOnly{s} }},
	"refuses late answers":        {"Complete/Late", func(s store.Store) store.Store { return punctual{s} }},
	"takes the last answer":       {"Complete/Idempotent", func(s store.Store) store.Store { return lastAnswer{s, &sync.Map{}} }},
	"refuses a second completion": {"Complete/Idempotent", func(s store.Store) store.Store { return onceOnly{s} }},
	"forgets the parked owner":    {"Park/ThenComplete", func(s store.Store) store.Store { return forgetsParked{s} }},
	"parks what is done":          {"Park/AfterComplete", func(s store.Store) store.Store { return &parksAnything{Store: s} }},
	"renews without end":          {"Renew/Extends", func(s store.Store) store.Store { return &renewsForEver{Store: s} }},
	"renews nothing":              {"Renew/Extends", func(s store.Store) store.Store { return renewsNothing{s} }},
	"keeps answers for ever":      {"Retention/InTurn", func(s store.Store) store.Store { return keepsForEver{s} }},
	"keeps no tombstone":          {"Retention/InTurn", func(s store.Store) store.Store { return noTombstone{s} }},
	"always keeps a tombstone":    {"Retention/NoTombstone", func(s store.Store) store.Store { return someTombstone{s} }},
	"sweeps all at once":          {"Sweep/Limits", func(s store.Store) store.Store { return sweepsAll{s} }},
	"sweeps nothing":              {"Retention/Swept", func(s store.Store) store.Store { return sweepsNothing{s} }},
	"counts twice":                {"Sweep/ManyAtOnce", func(s store.Store) store.Store { return countsTwice{s} }},
	"settles too early":           {"Settle/TooEarly", func(s store.Store) store.Store { return settlesEarly{s} }},
	"settles by the last fence":   {"Settle/OldDecision", func(s store.Store) store.Store { return settlesAnyFence{s} }},
	"settles twice":               {"Settle/Once", func(s store.Store) store.Store { return settlesTwice{s} }},
	"finds what is not there":     {"Find/NotFound", func(s store.Store) store.Store { return findsAnything{s} }},
	"lists the newest first":      {"List/OldestFirst", func(s store.Store) store.Store { return newestFirst{s} }},
	"pages by age":                {"List/SameAge", func(s store.Store) store.Store { return pagesByAge{s} }},
	"lists every realm":           {"List/Within", func(s store.Store) store.Store { return everyRealm{s} }},
	"skips in its patrol":         {"List/Swept", newSkipsInPatrol},
	"lists the parked first":      {"List/Swept", func(s store.Store) store.Store { return parkedFirst{s} }},
	"goes one way only":           {"List/ClockBack", newOneWay},
	"never sweeps the late":       {"Sweep/HoweverEnded", func(s store.Store) store.Store { return keepsTheLate{s} }},
	"believes any clock":          {"Window/Expired", func(s store.Store) store.Store { return anyClock{s} }},
	"settles by any clock":        {"Window/Settle", func(s store.Store) store.Store { return anyClock{s} }},
	"takes over by any clock":     {"Window/Lapsed", func(s store.Store) store.Store { return anyClock{s} }},
	"sweeps by any clock":         {"Window/Expired", func(s store.Store) store.Store { return sweepsByAnyClock{s} }},
	"does not heed the context":   {"Cancel/NothingHappens", func(s store.Store) store.Store { return heedless{s} }},

	"keeps no trace":        {"Claim/FirstWins", func(s store.Store) store.Store { return keepsNoTrace{s} }},
	"keeps the first trace": {"TakeOver/Resume", func(s store.Store) store.Store { return &firstTrace{Store: s} }},

	"looks before it claims, under stress": {"Stress", func(s store.Store) store.Store { return checkThenAct{s} }},
	"runs Park again, under stress":        {"Stress", func(s store.Store) store.Store { return takesOver{s, isPark} }},
	"takes the last answer, under stress":  {"Stress", func(s store.Store) store.Store { return lastAnswer{s, &sync.Map{}} }},
	"releases for anybody, under stress":   {"Stress", func(s store.Store) store.Store { return releasesForAnybody{s} }},
}

// mutantOf is a store with one fault, made of a sound one, and the name of the test that must find the fault.
type mutantOf[S, M any] struct {
	fails string
	store func(S) M
}

// family is the mutants of one interface: what they can do, and for each mutant the test that must find it.
type family struct {
	features storetest.Features
	fails    map[string]string
	open     func(mutant string) func(*testing.T) storetest.Subject
}

var families = []family{
	familyOf(mutants, storetest.Features{}, onMemory),
	familyOf(txMutants, everything, onReference),
	familyOf(stepMutants, storetest.Features{Steps: true}, onMemory),
	familyOf(segmentMutants, everything, onReference),
	familyOf(sightingMutants, storetest.Features{Watch: true}, onMemory),
	familyOf(openMutants, storetest.Features{Operations: true}, onMemory),
	familyOf(countMutants, storetest.Features{Operations: true}, onMemory),
	familyOf(importMutants, storetest.Features{Operations: true}, onMemory),
	familyOf(scopingMutants, storetest.Features{Settings: true}, onMemory),
	familyOf(keyTimeMutants, storetest.Features{Settings: true}, onMemory),
	familyOf(eraseMutants, inMemory, onMemory),
	familyOf(inspectMutants, storetest.Features{Operations: true}, onMemory),
	familyOf(referenceMutants, inMemory, onMemory),
}

// inMemory is everything that a memstore can do.
var inMemory = func(f storetest.Features) storetest.Features {
	f.Rollback, f.Shared = false, false
	return f
}(everything)

func familyOf[B store.Store, S, M any](mutants map[string]mutantOf[S, M], f storetest.Features,
	on func(mutant func(B) store.Store) func(*testing.T) storetest.Subject,
) family {
	fails := map[string]string{}
	for name, m := range mutants {
		fails[name] = m.fails
	}
	return family{f, fails, func(name string) func(*testing.T) storetest.Subject {
		return on(func(sound B) store.Store { return any(mutants[name].store(any(sound).(S))).(store.Store) })
	}}
}

func TestMutants(t *testing.T) {
	known := map[string]bool{}
	for _, f := range families {
		for name, test := range f.fails {
			require.False(t, known[name], "two mutants have the name %q", name)
			known[name] = true
			t.Run(name, func(t *testing.T) { requireFails(t, name, test) })
		}
	}
}

const mutantEnv = "STORETEST_MUTANT"

// requireFails runs a test against one mutant in a process of its own, and wants it to fail.
func requireFails(t *testing.T, mutant, test string) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run", "^TestMutant$/^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), mutantEnv+"="+mutant)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "nobody noticed; the output is:\n%s", out)
	require.Contains(t, string(out), "--- FAIL: TestMutant/"+test)
}

// TestMutant is what runs in the processes that TestMutants starts.
func TestMutant(t *testing.T) {
	name := os.Getenv(mutantEnv)
	for _, f := range families {
		if f.fails[name] != "" {
			storetest.Run(t, f.open(name), f.features)
			t.Run("Stress", func(t *testing.T) { storetest.Stress(t, f.open(name), f.features) })
			return
		}
	}
	t.Skip("TestMutants runs this")
}

// onMemory makes mutants of a memstore.
func onMemory(mutant func(*memstore.Store) store.Store) func(*testing.T) storetest.Subject {
	return func(*testing.T) storetest.Subject {
		var clock storetest.Clock
		return storetest.Subject{Store: mutant(memstore.New(memstore.WithClock(clock.Now))), Advance: clock.Advance}
	}
}

// onReference makes mutants of a store.Transactor.
func onReference(mutant func(*reference) store.Store) func(*testing.T) storetest.Subject {
	return func(t *testing.T) storetest.Subject {
		subject := newReference(t)
		st := mutant(subject.Store.(*reference))
		subject.Store, subject.Twin = st, func(*testing.T) store.Store { return st }
		return subject
	}
}

// checkThenAct looks first, and believes what it saw.
type checkThenAct struct{ store.Store }

func (s checkThenAct) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	_, err := s.Find(ctx, c.ID)
	runtime.Gosched()
	got, claimErr := s.Store.Claim(ctx, c)
	got.Won = got.Won || errors.Is(err, store.ErrNotFound)
	return got, claimErr
}

type alwaysBusy struct{ store.Store }

func (s alwaysBusy) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.Store.Claim(ctx, c)
	if err == nil && !got.Won {
		got = store.Claimed{Busy: true}
	}
	return got, err
}

type oneValue struct{ store.Store }

func (s oneValue) Complete(ctx context.Context, t store.Ticket, c store.Completion) error {
	h := http.Header{}
	for name := range c.Answer.Header {
		h.Set(name, c.Answer.Header.Get(name))
	}
	c.Answer.Header = h
	return s.Store.Complete(ctx, t, c)
}

type jsonHeader struct{ store.Store }

func (s jsonHeader) Complete(ctx context.Context, t store.Ticket, c store.Completion) error {
	text, err := json.Marshal(c.Answer.Header)
	c.Answer.Header = nil
	return errors.Join(err, json.Unmarshal(text, &c.Answer.Header), s.Store.Complete(ctx, t, c))
}

// takesOver gives an existing row to a claim that has no right to it.
type takesOver struct {
	store.Store
	when func(store.Claim, store.Record) bool
}

func isPark(_ store.Claim, r store.Record) bool {
	return r.State() == store.Unknown && r.Stored == store.Running
}

func isOtherHash(c store.Claim, r store.Record) bool {
	return r.Recovery == store.Resume && c.Recovery == store.Resume && r.Hash != c.Hash && r.LeaseExpired()
}

func isOtherRecovery(c store.Claim, r store.Record) bool {
	return r.Recovery == store.Resume && c.Recovery != store.Resume && r.Hash == c.Hash && r.LeaseExpired()
}

func isAlive(c store.Claim, r store.Record) bool {
	return r.Recovery == store.Resume && r.Stored == store.Running && r.Hash == c.Hash
}

func (s takesOver) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.Store.Claim(ctx, c)
	if err == nil && !got.Won && s.when(c, got.Record) {
		got.Won = true
		got.Record.Owner = c.Owner
	}
	return got, err
}

type releasesForAnybody struct{ store.Store }

func (s releasesForAnybody) Release(ctx context.Context, t store.Ticket) error {
	if r, err := s.Find(ctx, t.ID); err == nil {
		t = r.Ticket
	}
	return s.Store.Release(ctx, t)
}

type releasesAnything struct{ store.Store }

func (s releasesAnything) Release(ctx context.Context, t store.Ticket) error {
	if err := s.Store.Release(ctx, t); !errors.Is(err, store.ErrStale) {
		return err
	}
	return nil
}

// punctual refuses the owner as soon as its lease is over, although nobody has taken over.
type punctual struct{ store.Store }

func (s punctual) late(ctx context.Context, id store.ID) bool {
	r, err := s.Find(ctx, id)
	return err == nil && r.Stored == store.Running && r.LeaseExpired()
}

func (s punctual) Complete(ctx context.Context, t store.Ticket, c store.Completion) error {
	if s.late(ctx, t.ID) {
		return store.ErrStale
	}
	return s.Store.Complete(ctx, t, c)
}

func (s punctual) Release(ctx context.Context, t store.Ticket) error {
	if s.late(ctx, t.ID) {
		return store.ErrStale
	}
	return s.Store.Release(ctx, t)
}

type wantsFence struct{ store.Store }

func (s wantsFence) Release(ctx context.Context, t store.Ticket) error {
	if t.Fence == 0 {
		return nil
	}
	return s.Store.Release(ctx, t)
}

// freesSteps treats a Resume attempt that was taken over like one that never began.
type freesSteps struct{ store.Store }

func (s freesSteps) Release(ctx context.Context, t store.Ticket) error {
	if r, err := s.Find(ctx, t.ID); err == nil && r.Owner == t.Owner && r.Stored == store.Running {
		t = r.Ticket
	}
	return s.Store.Release(ctx, t)
}

// landsLate lets a claim take effect after its owner gave it up and released it.
type landsLate struct {
	store.Store
	mu   sync.Mutex
	late []store.Claim
}

func (s *landsLate) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		s.late = append(s.late, c)
		return store.Claimed{}, ctx.Err()
	}
	for _, late := range s.late {
		_, _ = s.Store.Claim(ctx, late)
	}
	s.late = nil
	return s.Store.Claim(ctx, c)
}

// newFences tells every attempt that it is the first.
type newFences struct{ store.Store }

func (s newFences) Settle(ctx context.Context, d store.Settlement) (store.Record, error) {
	if r, err := s.Find(ctx, d.ID); err == nil && d.Fence == 1 && r.Recovery == store.Park {
		d.Fence = r.Fence
	}
	return s.Store.Settle(ctx, d)
}

type keepsNoTrace struct{ store.Store }

func (s keepsNoTrace) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	c.Traceparent = ""
	return s.Store.Claim(ctx, c)
}

// firstTrace leaves a record the trace of its first attempt.
type firstTrace struct {
	store.Store
	first sync.Map
}

func (s *firstTrace) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	first, _ := s.first.LoadOrStore(c.ID, c.Traceparent)
	c.Traceparent = first.(string)
	return s.Store.Claim(ctx, c)
}

type fenceOnly struct{ store.Store }

func (s fenceOnly) Complete(ctx context.Context, t store.Ticket, c store.Completion) error {
	if r, err := s.Find(ctx, t.ID); err == nil && r.Fence == t.Fence {
		t = r.Ticket
	}
	return s.Store.Complete(ctx, t, c)
}

// lastAnswer lets a second completion change the answer.
type lastAnswer struct {
	store.Store
	answers *sync.Map
}

func (s lastAnswer) Complete(ctx context.Context, t store.Ticket, c store.Completion) error {
	err := s.Store.Complete(ctx, t, c)
	if err == nil {
		s.answers.Store(t.ID, c.Answer)
	}
	return err
}

func (s lastAnswer) Find(ctx context.Context, id store.ID) (store.Record, error) {
	r, err := s.Store.Find(ctx, id)
	if a, ok := s.answers.Load(id); ok && err == nil {
		r.Answer = a.(store.Answer)
	}
	return r, err
}

type onceOnly struct{ store.Store }

func (s onceOnly) Complete(ctx context.Context, t store.Ticket, c store.Completion) error {
	if r, err := s.Find(ctx, t.ID); err == nil && r.Stored == store.Completed {
		return store.ErrStale
	}
	return s.Store.Complete(ctx, t, c)
}

type forgetsParked struct{ store.Store }

func (s forgetsParked) Complete(ctx context.Context, t store.Ticket, c store.Completion) error {
	if r, err := s.Find(ctx, t.ID); err == nil && r.Stored == store.Unknown {
		return store.ErrStale
	}
	return s.Store.Complete(ctx, t, c)
}

// parksAnything answers ErrStale as it should, but makes the row unknown nevertheless.
type parksAnything struct {
	store.Store
	parked sync.Map
}

func (s *parksAnything) Park(ctx context.Context, t store.Ticket) error {
	err := s.Store.Park(ctx, t)
	if errors.Is(err, store.ErrStale) {
		s.parked.Store(t.ID, true)
	}
	return err
}

func (s *parksAnything) Find(ctx context.Context, id store.ID) (store.Record, error) {
	r, err := s.Store.Find(ctx, id)
	if _, ok := s.parked.Load(id); ok && r.Stored == store.Completed {
		r.Stored = store.Unknown
	}
	return r, err
}

// renewsForEver hides that a lease has run into its deadline.
type renewsForEver struct {
	store.Store
	renewed sync.Map
}

func (s *renewsForEver) Renew(ctx context.Context, t store.Ticket, lease time.Duration) error {
	r, _ := s.Find(ctx, t.ID)
	s.renewed.Store(t.ID, r.Now.Add(lease))
	return s.Store.Renew(ctx, t, lease)
}

func (s *renewsForEver) Find(ctx context.Context, id store.ID) (store.Record, error) {
	r, err := s.Store.Find(ctx, id)
	if until, ok := s.renewed.Load(id); ok {
		r.LeaseUntil = until.(time.Time)
	}
	return r, err
}

type renewsNothing struct{ store.Store }

func (s renewsNothing) Renew(context.Context, store.Ticket, time.Duration) error { return nil }

type keepsForEver struct{ store.Store }

func (s keepsForEver) Complete(ctx context.Context, t store.Ticket, c store.Completion) error {
	c.Retention *= 100
	return s.Store.Complete(ctx, t, c)
}

type noTombstone struct{ store.Store }

func (s noTombstone) Complete(ctx context.Context, t store.Ticket, c store.Completion) error {
	c.Tombstone = 0
	return s.Store.Complete(ctx, t, c)
}

type someTombstone struct{ store.Store }

func (s someTombstone) Complete(ctx context.Context, t store.Ticket, c store.Completion) error {
	c.Tombstone = max(c.Tombstone, 24*time.Hour)
	return s.Store.Complete(ctx, t, c)
}

type sweepsAll struct{ store.Store }

func (s sweepsAll) Sweep(ctx context.Context, _ int, window store.Window) (store.Swept, error) {
	return s.Store.Sweep(ctx, 1<<20, window)
}

type sweepsNothing struct{ store.Store }

func (s sweepsNothing) Sweep(context.Context, int, store.Window) (store.Swept, error) {
	return store.Swept{}, nil
}

// countsTwice also counts what another sweep may have done.
type countsTwice struct{ store.Store }

func (s countsTwice) Sweep(ctx context.Context, limit int, window store.Window) (store.Swept, error) {
	swept, err := s.Store.Sweep(ctx, limit, window)
	swept.Tombstones *= 2
	return swept, err
}

// settlesEarly settles when the lease is over, and does not wait for the deadline.
type settlesEarly struct{ store.Store }

func (s settlesEarly) Settle(ctx context.Context, d store.Settlement) (store.Record, error) {
	settled, err := s.Store.Settle(ctx, d)
	if r, findErr := s.Find(ctx, d.ID); errors.Is(err, store.ErrNotSettleable) && findErr == nil &&
		r.State() == store.Unknown && r.LeaseExpired() {
		return r, nil
	}
	return settled, err
}

type settlesAnyFence struct{ store.Store }

func (s settlesAnyFence) Settle(ctx context.Context, d store.Settlement) (store.Record, error) {
	if r, err := s.Find(ctx, d.ID); err == nil {
		d.Fence = r.Fence
	}
	return s.Store.Settle(ctx, d)
}

type settlesTwice struct{ store.Store }

func (s settlesTwice) Settle(ctx context.Context, d store.Settlement) (store.Record, error) {
	settled, err := s.Store.Settle(ctx, d)
	if errors.Is(err, store.ErrNotSettleable) {
		if r, findErr := s.Find(ctx, d.ID); findErr == nil && r.Fence > d.Fence {
			return r, nil
		}
	}
	return settled, err
}

type findsAnything struct{ store.Store }

func (s findsAnything) Find(ctx context.Context, id store.ID) (store.Record, error) {
	r, err := s.Store.Find(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return store.Record{Stored: store.Free}, nil
	}
	return r, err
}

type newestFirst struct{ store.Store }

func (s newestFirst) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	page, err := s.Store.List(ctx, q)
	slices.Reverse(page)
	return page, err
}

// pagesByAge leaves out records that are as old as the last record of the page before.
type pagesByAge struct{ store.Store }

func (s pagesByAge) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	page, err := s.Store.List(ctx, q)
	return slices.DeleteFunc(page, func(r store.Record) bool { return r.CreatedAt.Equal(q.After.CreatedAt) }), err
}

type heedless struct{ store.Store }

func (s heedless) Complete(ctx context.Context, t store.Ticket, c store.Completion) error {
	return s.Store.Complete(context.WithoutCancel(ctx), t, c)
}

type everyRealm struct{ store.Store }

func (s everyRealm) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	q.Within = nil
	return s.Store.List(ctx, q)
}

type anyClock struct{ store.Store }

func (s anyClock) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	c.Window = store.Window{}
	return s.Store.Claim(ctx, c)
}

type sweepsByAnyClock struct{ store.Store }

func (s sweepsByAnyClock) Sweep(ctx context.Context, limit int, _ store.Window) (store.Swept, error) {
	return s.Store.Sweep(ctx, limit, store.Window{})
}

func (s anyClock) Settle(ctx context.Context, d store.Settlement) (store.Record, error) {
	d.Window = store.Window{}
	return s.Store.Settle(ctx, d)
}
