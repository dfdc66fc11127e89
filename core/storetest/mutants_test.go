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

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/storetest"
)

// A suite that cannot fail proves nothing. Each mutant is a store with one fault, and names the test that must find it.
// That test fails, so it runs in a process of its own.
var mutants = map[string]mutantOf[core.Store, core.Store]{
	"looks before it claims":      {"Claim/OneOfManyWins", func(s core.Store) core.Store { return checkThenAct{s} }},
	"locks others out of the row": {"Claim/FirstWins", func(s core.Store) core.Store { return alwaysBusy{s} }},
	"keeps one value per header":  {"Claim/RoundTrip", func(s core.Store) core.Store { return oneValue{s} }},
	"keeps headers as JSON":       {"Claim/RoundTrip", func(s core.Store) core.Store { return jsonHeader{s} }},
	"runs Park again":             {"Claim/ParkNeverAgain", func(s core.Store) core.Store { return takesOver{s, isPark} }},
	"takes over any command":      {"TakeOver/Refused", func(s core.Store) core.Store { return takesOver{s, isOtherHash} }},
	"takes over for any recovery": {"TakeOver/Refused", func(s core.Store) core.Store { return takesOver{s, isOtherRecovery} }},
	"takes over early":            {"TakeOver/Resume", func(s core.Store) core.Store { return takesOver{s, isAlive} }},
	"releases for anybody":        {"Release/OfAnother", func(s core.Store) core.Store { return releasesForAnybody{s} }},
	"releases what is done":       {"Release/NotRunning", func(s core.Store) core.Store { return releasesAnything{s} }},
	"refuses late releases":       {"Release/Late", func(s core.Store) core.Store { return punctual{s} }},
	"wants a fence to release":    {"Release/ByOwnerAlone", func(s core.Store) core.Store { return wantsFence{s} }},
	"frees finished steps":        {"Release/ByOwnerAlone", func(s core.Store) core.Store { return freesSteps{s} }},
	"lands cancelled claims":      {"Release/AfterLostClaim", func(s core.Store) core.Store { return &landsLate{Store: s} }},
	"starts fences anew":          {"Settle/OldDecision", func(s core.Store) core.Store { return newFences{s} }},
	"completes by the fence only": {"Complete/Stale", func(s core.Store) core.Store { return fenceOnly{s} }},
	"refuses late answers":        {"Complete/Late", func(s core.Store) core.Store { return punctual{s} }},
	"takes the last answer":       {"Complete/Idempotent", func(s core.Store) core.Store { return lastAnswer{s, &sync.Map{}} }},
	"refuses a second completion": {"Complete/Idempotent", func(s core.Store) core.Store { return onceOnly{s} }},
	"forgets the parked owner":    {"Park/ThenComplete", func(s core.Store) core.Store { return forgetsParked{s} }},
	"parks what is done":          {"Park/AfterComplete", func(s core.Store) core.Store { return &parksAnything{Store: s} }},
	"renews without end":          {"Renew/Extends", func(s core.Store) core.Store { return &renewsForEver{Store: s} }},
	"renews nothing":              {"Renew/Extends", func(s core.Store) core.Store { return renewsNothing{s} }},
	"keeps answers for ever":      {"Retention/InTurn", func(s core.Store) core.Store { return keepsForEver{s} }},
	"keeps no tombstone":          {"Retention/InTurn", func(s core.Store) core.Store { return noTombstone{s} }},
	"always keeps a tombstone":    {"Retention/NoTombstone", func(s core.Store) core.Store { return someTombstone{s} }},
	"sweeps all at once":          {"Sweep/Limits", func(s core.Store) core.Store { return sweepsAll{s} }},
	"sweeps nothing":              {"Retention/Swept", func(s core.Store) core.Store { return sweepsNothing{s} }},
	"counts twice":                {"Sweep/ManyAtOnce", func(s core.Store) core.Store { return countsTwice{s} }},
	"settles too early":           {"Settle/TooEarly", func(s core.Store) core.Store { return settlesEarly{s} }},
	"settles by the last fence":   {"Settle/OldDecision", func(s core.Store) core.Store { return settlesAnyFence{s} }},
	"settles twice":               {"Settle/Once", func(s core.Store) core.Store { return settlesTwice{s} }},
	"finds what is not there":     {"Find/NotFound", func(s core.Store) core.Store { return findsAnything{s} }},
	"lists the newest first":      {"List/OldestFirst", func(s core.Store) core.Store { return newestFirst{s} }},
	"pages by age":                {"List/SameAge", func(s core.Store) core.Store { return pagesByAge{s} }},
	"lists nothing after a gap":   {"List/NoSuchRecord", func(s core.Store) core.Store { return emptyPage{s} }},
	"lists every realm":           {"List/Within", func(s core.Store) core.Store { return everyRealm{s} }},
	"skips in its patrol":         {"List/Swept", newSkipsInPatrol},
	"lists the parked first":      {"List/Swept", func(s core.Store) core.Store { return parkedFirst{s} }},
	"goes one way only":           {"List/ClockBack", newOneWay},
	"never sweeps the late":       {"Sweep/HoweverEnded", func(s core.Store) core.Store { return keepsTheLate{s} }},
	"believes any clock":          {"Window/Expired", func(s core.Store) core.Store { return anyClock{s} }},
	"settles by any clock":        {"Window/Settle", func(s core.Store) core.Store { return anyClock{s} }},
	"takes over by any clock":     {"Window/Lapsed", func(s core.Store) core.Store { return anyClock{s} }},
	"sweeps by any clock":         {"Window/Expired", func(s core.Store) core.Store { return sweepsByAnyClock{s} }},
	"does not heed the context":   {"Cancel/NothingHappens", func(s core.Store) core.Store { return heedless{s} }},

	"keeps no trace":        {"Claim/FirstWins", func(s core.Store) core.Store { return keepsNoTrace{s} }},
	"keeps the first trace": {"TakeOver/Resume", func(s core.Store) core.Store { return &firstTrace{Store: s} }},

	"looks before it claims, under stress": {"Stress", func(s core.Store) core.Store { return checkThenAct{s} }},
	"runs Park again, under stress":        {"Stress", func(s core.Store) core.Store { return takesOver{s, isPark} }},
	"takes the last answer, under stress":  {"Stress", func(s core.Store) core.Store { return lastAnswer{s, &sync.Map{}} }},
	"releases for anybody, under stress":   {"Stress", func(s core.Store) core.Store { return releasesForAnybody{s} }},
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
	familyOf(openMutants, storetest.Features{Count: true}, onMemory),
	familyOf(surveyMutants, storetest.Features{Survey: true}, onMemory),
	familyOf(importMutants, storetest.Features{Import: true}, onMemory),
	familyOf(scopingMutants, storetest.Features{Scoping: true}, onMemory),
	familyOf(keyTimeMutants, storetest.Features{KeyTime: true}, onMemory),
	familyOf(eraseMutants, inMemory, onMemory),
	familyOf(inspectMutants, storetest.Features{Inspect: true}, onMemory),
	familyOf(referenceMutants, inMemory, onMemory),
}

// inMemory is everything that a memstore can do.
var inMemory = func(f storetest.Features) storetest.Features {
	f.Rollback, f.Shared = false, false
	return f
}(everything)

func familyOf[B core.Store, S, M any](mutants map[string]mutantOf[S, M], f storetest.Features,
	on func(mutant func(B) core.Store) func(*testing.T) storetest.Subject,
) family {
	fails := map[string]string{}
	for name, m := range mutants {
		fails[name] = m.fails
	}
	return family{f, fails, func(name string) func(*testing.T) storetest.Subject {
		return on(func(sound B) core.Store { return any(mutants[name].store(any(sound).(S))).(core.Store) })
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
func onMemory(mutant func(*memstore.Store) core.Store) func(*testing.T) storetest.Subject {
	return func(*testing.T) storetest.Subject {
		var clock storetest.Clock
		return storetest.Subject{Store: mutant(memstore.New(memstore.WithClock(clock.Now))), Advance: clock.Advance}
	}
}

// onReference makes mutants of a core.Transactor.
func onReference(mutant func(*reference) core.Store) func(*testing.T) storetest.Subject {
	return func(t *testing.T) storetest.Subject {
		subject := newReference(t)
		store := mutant(subject.Store.(*reference))
		subject.Store, subject.Twin = store, func(*testing.T) core.Store { return store }
		return subject
	}
}

// checkThenAct looks first, and believes what it saw.
type checkThenAct struct{ core.Store }

func (s checkThenAct) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	_, err := s.Find(ctx, c.ID)
	runtime.Gosched()
	got, claimErr := s.Store.Claim(ctx, c)
	got.Won = got.Won || errors.Is(err, core.ErrNotFound)
	return got, claimErr
}

type alwaysBusy struct{ core.Store }

func (s alwaysBusy) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	got, err := s.Store.Claim(ctx, c)
	if err == nil && !got.Won {
		got = core.Claimed{Busy: true}
	}
	return got, err
}

type oneValue struct{ core.Store }

func (s oneValue) Complete(ctx context.Context, t core.Ticket, c core.Completion) error {
	h := http.Header{}
	for name := range c.Answer.Header {
		h.Set(name, c.Answer.Header.Get(name))
	}
	c.Answer.Header = h
	return s.Store.Complete(ctx, t, c)
}

type jsonHeader struct{ core.Store }

func (s jsonHeader) Complete(ctx context.Context, t core.Ticket, c core.Completion) error {
	text, err := json.Marshal(c.Answer.Header)
	c.Answer.Header = nil
	return errors.Join(err, json.Unmarshal(text, &c.Answer.Header), s.Store.Complete(ctx, t, c))
}

// takesOver gives an existing row to a claim that has no right to it.
type takesOver struct {
	core.Store
	when func(core.Claim, core.Record) bool
}

func isPark(_ core.Claim, r core.Record) bool {
	return r.State() == core.Unknown && r.Stored == core.Running
}

func isOtherHash(c core.Claim, r core.Record) bool {
	return r.Recovery == core.Resume && c.Recovery == core.Resume && r.Hash != c.Hash && r.LeaseExpired()
}

func isOtherRecovery(c core.Claim, r core.Record) bool {
	return r.Recovery == core.Resume && c.Recovery != core.Resume && r.Hash == c.Hash && r.LeaseExpired()
}

func isAlive(c core.Claim, r core.Record) bool {
	return r.Recovery == core.Resume && r.Stored == core.Running && r.Hash == c.Hash
}

func (s takesOver) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	got, err := s.Store.Claim(ctx, c)
	if err == nil && !got.Won && s.when(c, got.Record) {
		got.Won = true
		got.Record.Owner = c.Owner
	}
	return got, err
}

type releasesForAnybody struct{ core.Store }

func (s releasesForAnybody) Release(ctx context.Context, t core.Ticket) error {
	if r, err := s.Find(ctx, t.ID); err == nil {
		t = r.Ticket
	}
	return s.Store.Release(ctx, t)
}

type releasesAnything struct{ core.Store }

func (s releasesAnything) Release(ctx context.Context, t core.Ticket) error {
	if err := s.Store.Release(ctx, t); !errors.Is(err, core.ErrStale) {
		return err
	}
	return nil
}

// punctual refuses the owner as soon as its lease is over, although nobody has taken over.
type punctual struct{ core.Store }

func (s punctual) late(ctx context.Context, id core.ID) bool {
	r, err := s.Find(ctx, id)
	return err == nil && r.Stored == core.Running && r.LeaseExpired()
}

func (s punctual) Complete(ctx context.Context, t core.Ticket, c core.Completion) error {
	if s.late(ctx, t.ID) {
		return core.ErrStale
	}
	return s.Store.Complete(ctx, t, c)
}

func (s punctual) Release(ctx context.Context, t core.Ticket) error {
	if s.late(ctx, t.ID) {
		return core.ErrStale
	}
	return s.Store.Release(ctx, t)
}

type wantsFence struct{ core.Store }

func (s wantsFence) Release(ctx context.Context, t core.Ticket) error {
	if t.Fence == 0 {
		return nil
	}
	return s.Store.Release(ctx, t)
}

// freesSteps treats a Resume attempt that was taken over like one that never began.
type freesSteps struct{ core.Store }

func (s freesSteps) Release(ctx context.Context, t core.Ticket) error {
	if r, err := s.Find(ctx, t.ID); err == nil && r.Owner == t.Owner && r.Stored == core.Running {
		t = r.Ticket
	}
	return s.Store.Release(ctx, t)
}

// landsLate lets a claim take effect after its owner gave it up and released it.
type landsLate struct {
	core.Store
	mu   sync.Mutex
	late []core.Claim
}

func (s *landsLate) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		s.late = append(s.late, c)
		return core.Claimed{}, ctx.Err()
	}
	for _, late := range s.late {
		_, _ = s.Store.Claim(ctx, late)
	}
	s.late = nil
	return s.Store.Claim(ctx, c)
}

// newFences tells every attempt that it is the first.
type newFences struct{ core.Store }

func (s newFences) Settle(ctx context.Context, d core.Settlement) (core.Record, error) {
	if r, err := s.Find(ctx, d.ID); err == nil && d.Fence == 1 && r.Recovery == core.Park {
		d.Fence = r.Fence
	}
	return s.Store.Settle(ctx, d)
}

type keepsNoTrace struct{ core.Store }

func (s keepsNoTrace) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	c.Traceparent = ""
	return s.Store.Claim(ctx, c)
}

// firstTrace leaves a record the trace of its first attempt.
type firstTrace struct {
	core.Store
	first sync.Map
}

func (s *firstTrace) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	first, _ := s.first.LoadOrStore(c.ID, c.Traceparent)
	c.Traceparent = first.(string)
	return s.Store.Claim(ctx, c)
}

type fenceOnly struct{ core.Store }

func (s fenceOnly) Complete(ctx context.Context, t core.Ticket, c core.Completion) error {
	if r, err := s.Find(ctx, t.ID); err == nil && r.Fence == t.Fence {
		t = r.Ticket
	}
	return s.Store.Complete(ctx, t, c)
}

// lastAnswer lets a second completion change the answer.
type lastAnswer struct {
	core.Store
	answers *sync.Map
}

func (s lastAnswer) Complete(ctx context.Context, t core.Ticket, c core.Completion) error {
	err := s.Store.Complete(ctx, t, c)
	if err == nil {
		s.answers.Store(t.ID, c.Answer)
	}
	return err
}

func (s lastAnswer) Find(ctx context.Context, id core.ID) (core.Record, error) {
	r, err := s.Store.Find(ctx, id)
	if a, ok := s.answers.Load(id); ok && err == nil {
		r.Answer = a.(core.Answer)
	}
	return r, err
}

type onceOnly struct{ core.Store }

func (s onceOnly) Complete(ctx context.Context, t core.Ticket, c core.Completion) error {
	if r, err := s.Find(ctx, t.ID); err == nil && r.Stored == core.Completed {
		return core.ErrStale
	}
	return s.Store.Complete(ctx, t, c)
}

type forgetsParked struct{ core.Store }

func (s forgetsParked) Complete(ctx context.Context, t core.Ticket, c core.Completion) error {
	if r, err := s.Find(ctx, t.ID); err == nil && r.Stored == core.Unknown {
		return core.ErrStale
	}
	return s.Store.Complete(ctx, t, c)
}

// parksAnything answers ErrStale as it should, but makes the row unknown nevertheless.
type parksAnything struct {
	core.Store
	parked sync.Map
}

func (s *parksAnything) Park(ctx context.Context, t core.Ticket) error {
	err := s.Store.Park(ctx, t)
	if errors.Is(err, core.ErrStale) {
		s.parked.Store(t.ID, true)
	}
	return err
}

func (s *parksAnything) Find(ctx context.Context, id core.ID) (core.Record, error) {
	r, err := s.Store.Find(ctx, id)
	if _, ok := s.parked.Load(id); ok && r.Stored == core.Completed {
		r.Stored = core.Unknown
	}
	return r, err
}

// renewsForEver hides that a lease has run into its deadline.
type renewsForEver struct {
	core.Store
	renewed sync.Map
}

func (s *renewsForEver) Renew(ctx context.Context, t core.Ticket, lease time.Duration) error {
	r, _ := s.Find(ctx, t.ID)
	s.renewed.Store(t.ID, r.Now.Add(lease))
	return s.Store.Renew(ctx, t, lease)
}

func (s *renewsForEver) Find(ctx context.Context, id core.ID) (core.Record, error) {
	r, err := s.Store.Find(ctx, id)
	if until, ok := s.renewed.Load(id); ok {
		r.LeaseUntil = until.(time.Time)
	}
	return r, err
}

type renewsNothing struct{ core.Store }

func (s renewsNothing) Renew(context.Context, core.Ticket, time.Duration) error { return nil }

type keepsForEver struct{ core.Store }

func (s keepsForEver) Complete(ctx context.Context, t core.Ticket, c core.Completion) error {
	c.Retention *= 100
	return s.Store.Complete(ctx, t, c)
}

type noTombstone struct{ core.Store }

func (s noTombstone) Complete(ctx context.Context, t core.Ticket, c core.Completion) error {
	c.Tombstone = 0
	return s.Store.Complete(ctx, t, c)
}

type someTombstone struct{ core.Store }

func (s someTombstone) Complete(ctx context.Context, t core.Ticket, c core.Completion) error {
	c.Tombstone = max(c.Tombstone, 24*time.Hour)
	return s.Store.Complete(ctx, t, c)
}

type sweepsAll struct{ core.Store }

func (s sweepsAll) Sweep(ctx context.Context, _ int, window core.Window) (core.Swept, error) {
	return s.Store.Sweep(ctx, 1<<20, window)
}

type sweepsNothing struct{ core.Store }

func (s sweepsNothing) Sweep(context.Context, int, core.Window) (core.Swept, error) {
	return core.Swept{}, nil
}

// countsTwice also counts what another sweep may have done.
type countsTwice struct{ core.Store }

func (s countsTwice) Sweep(ctx context.Context, limit int, window core.Window) (core.Swept, error) {
	swept, err := s.Store.Sweep(ctx, limit, window)
	swept.Tombstones *= 2
	return swept, err
}

// settlesEarly settles when the lease is over, and does not wait for the deadline.
type settlesEarly struct{ core.Store }

func (s settlesEarly) Settle(ctx context.Context, d core.Settlement) (core.Record, error) {
	settled, err := s.Store.Settle(ctx, d)
	if r, findErr := s.Find(ctx, d.ID); errors.Is(err, core.ErrNotSettleable) && findErr == nil &&
		r.State() == core.Unknown && r.LeaseExpired() {
		return r, nil
	}
	return settled, err
}

type settlesAnyFence struct{ core.Store }

func (s settlesAnyFence) Settle(ctx context.Context, d core.Settlement) (core.Record, error) {
	if r, err := s.Find(ctx, d.ID); err == nil {
		d.Fence = r.Fence
	}
	return s.Store.Settle(ctx, d)
}

type settlesTwice struct{ core.Store }

func (s settlesTwice) Settle(ctx context.Context, d core.Settlement) (core.Record, error) {
	settled, err := s.Store.Settle(ctx, d)
	if errors.Is(err, core.ErrNotSettleable) {
		if r, findErr := s.Find(ctx, d.ID); findErr == nil && r.Fence > d.Fence {
			return r, nil
		}
	}
	return settled, err
}

type findsAnything struct{ core.Store }

func (s findsAnything) Find(ctx context.Context, id core.ID) (core.Record, error) {
	r, err := s.Store.Find(ctx, id)
	if errors.Is(err, core.ErrNotFound) {
		return core.Record{Stored: core.Free}, nil
	}
	return r, err
}

type newestFirst struct{ core.Store }

func (s newestFirst) List(ctx context.Context, within []byte, after core.ID, limit int) ([]core.Record, error) {
	page, err := s.Store.List(ctx, within, after, limit)
	slices.Reverse(page)
	return page, err
}

// pagesByAge leaves out records that are as old as the last record of the page before.
type pagesByAge struct{ core.Store }

func (s pagesByAge) List(ctx context.Context, within []byte, after core.ID, limit int) ([]core.Record, error) {
	page, err := s.Store.List(ctx, within, after, limit)
	if last, findErr := s.Find(ctx, after); findErr == nil {
		page = slices.DeleteFunc(page, func(r core.Record) bool { return r.CreatedAt.Equal(last.CreatedAt) })
	}
	return page, err
}

type emptyPage struct{ core.Store }

func (s emptyPage) List(ctx context.Context, within []byte, after core.ID, limit int) ([]core.Record, error) {
	page, err := s.Store.List(ctx, within, after, limit)
	if errors.Is(err, core.ErrNotFound) {
		err = nil
	}
	return page, err
}

type heedless struct{ core.Store }

func (s heedless) Complete(ctx context.Context, t core.Ticket, c core.Completion) error {
	return s.Store.Complete(context.WithoutCancel(ctx), t, c)
}

type everyRealm struct{ core.Store }

func (s everyRealm) List(ctx context.Context, _ []byte, after core.ID, limit int) ([]core.Record, error) {
	return s.Store.List(ctx, nil, after, limit)
}

type anyClock struct{ core.Store }

func (s anyClock) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	c.Window = core.Window{}
	return s.Store.Claim(ctx, c)
}

type sweepsByAnyClock struct{ core.Store }

func (s sweepsByAnyClock) Sweep(ctx context.Context, limit int, _ core.Window) (core.Swept, error) {
	return s.Store.Sweep(ctx, limit, core.Window{})
}

func (s anyClock) Settle(ctx context.Context, d core.Settlement) (core.Record, error) {
	d.Window = core.Window{}
	return s.Store.Settle(ctx, d)
}
