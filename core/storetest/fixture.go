package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// The times of the suite. A test moves the clock by much more or much less than these. On a slow machine real time
// passes as well, and it must not decide a test.
const (
	lease     = 2 * time.Minute
	deadline  = 20 * time.Minute
	retention = 48 * time.Hour
	tombstone = 30 * 24 * time.Hour
	forever   = 3 * tombstone // longer than anything is kept
)

// burst is how many goroutines ask for the same thing at once, on each instance.
const burst = 64

// fixture is a subject with the helpers that most tests need.
type fixture struct {
	Subject
	ctx       context.Context    //nolint:containedctx // one per test
	instances []store.Operations // the store, and its twin if there is one
	attempts  []store.Attempts
	rows      bool // they run the rows of handlers
	unlocked  bool // see Features
	nodes     bool // the same
	watchers  []store.CommandLog
	proposals []store.Proposals
	sights    int
	run       string // in every key: a store that tests share may still be at work on a command of the test before
	commands  int
	effects   atomic.Int64 // committed by a stress test
}

// key is the key of the nth command.
func (s *fixture) key(n int) string { return fmt.Sprintf("key-%d-%s", n, s.run) }

// command returns the claim of a command that the store has not seen.
func (s *fixture) command(r store.Recovery) store.Claim {
	s.commands++
	p := core.Principal{Issuer: "https://issuer.example", Tenant: "t-1", Subject: "u-1"}
	return store.Claim{
		ID:       core.Scoping{}.RecordID(p, s.key(s.commands)),
		Owner:    newOwner(),
		Scope:    core.Scoping{}.PrincipalScope(p),
		Realm:    core.Scoping{}.PrincipalRealm(p),
		Method:   http.MethodPost,
		Route:    "/v1/orders/:id/payments",
		Recovery: r,
		Hash:     hashOf(s.commands),
		Lease:    lease,
		Deadline: deadline,

		Traceparent: newTrace(),
	}
}

// repeat returns the claim of a repeat of the command: another attempt, with its own owner.
func repeat(c store.Claim) store.Claim {
	c.Owner, c.Traceparent = newOwner(), newTrace()
	return c
}

// otherCommand returns a repeat with the same key and another command.
func otherCommand(c store.Claim) store.Claim {
	c = repeat(c)
	c.Method, c.Route, c.Hash = http.MethodPut, "/v1/other", hashOf("another command")
	return c
}

func hashOf(command any) store.CommandHash {
	return store.CommandHash{Version: 1, Sum: sha256.Sum256(fmt.Append(nil, command))}
}

func newOwner() (o store.Owner) {
	rand.Read(o[:]) // never fails since Go 1.24
	return o
}

// newTrace returns a traceparent that no other attempt has.
func newTrace() string {
	o := newOwner()
	return fmt.Sprintf("00-%x-%x-01", o, o[:8])
}

// answerOf returns an answer whose body is text.
func answerOf(text string) store.Answer {
	return store.Answer{Status: http.StatusCreated, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte(text)}
}

// kept returns a completion with the suite's retention and tombstone.
func kept(a store.Answer) store.Completion {
	return store.Completion{Answer: a, Retention: retention, Tombstone: tombstone}
}

// The ways to end an attempt.
var asFree, asUnknown = store.Ending{State: store.Free}, store.Ending{State: store.Unknown}

func answered(c store.Completion) store.Ending {
	return store.Ending{State: store.Completed, Answer: c}
}

// claim claims c as the module does, if the store can do that: a Resume command by Begin. An empty segment is sealed
// behind a first attempt of one, so that there is a record to be seen.
func (s *fixture) claim(st store.Store, c store.Claim) (store.Attempt, store.Claimed, error) {
	attempts, ok := st.(store.Attempts)
	if !ok || c.Recovery != store.Resume {
		got, err := st.Claim(s.ctx, c)
		return nil, got, err
	}
	segments, got, err := attempts.Begin(s.ctx, c)
	if segments == nil {
		return nil, got, err
	}
	if got.Record.Attempts == 1 {
		_, err = segments.Seal(s.ctx, store.Seal{})
	}
	return segments, got, err
}

// win claims c and must win.
func (s *fixture) win(t *testing.T, c store.Claim) store.Record {
	t.Helper()
	return s.resume(t, c).Record
}

// resumed is an attempt that was won. The segments are those of a Resume attempt.
type resumed struct {
	store.Record
	segments store.Attempt
}

// resume is win with the segments.
func (s *fixture) resume(t *testing.T, c store.Claim) resumed {
	t.Helper()
	segments, got, err := s.claim(s.Store, c)
	if segments != nil {
		t.Cleanup(func() { _ = segments.Rollback() })
	}
	require.NoError(t, err)
	require.True(t, got.Won, "the claim must win; it found %s", brief(got))
	require.False(t, got.Busy, "a claim that won is not busy")
	require.Equal(t, store.Running, got.Record.Stored)
	require.Equal(t, c.ID, got.Record.ID)
	require.Equal(t, c.Owner, got.Record.Owner, "the record of the winner bears the winner's owner token")
	return resumed{got.Record, segments}
}

// won is a new command that has been won.
func (s *fixture) won(t *testing.T, r store.Recovery) (store.Claim, store.Record) {
	t.Helper()
	c := s.command(r)
	return c, s.win(t, c)
}

// resumed is a new Resume command that has been won.
func (s *fixture) resumed(t *testing.T) (store.Claim, resumed) {
	t.Helper()
	c := s.command(store.Resume)
	return c, s.resume(t, c)
}

// complete records an answer of an attempt.
func (s *fixture) complete(t *testing.T, r store.Record, text string) {
	t.Helper()
	require.NoError(t, s.Store.End(s.ctx, r.Ticket, answered(kept(answerOf(text)))))
}

// over is a context that has ended.
func (s *fixture) over() context.Context {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	return ctx
}

// lose claims c and must find an existing row, on every instance. It returns the row.
func (s *fixture) lose(t *testing.T, c store.Claim) store.Record {
	t.Helper()
	var found store.Record
	for _, store := range s.instances {
		_, got, err := s.claim(store, c)
		require.NoError(t, err)
		require.False(t, got.Won, "the claim must not win")
		require.False(t, got.Busy, "there is a row to be seen, and nobody else at work")
		require.Equal(t, c.ID, got.Record.ID)
		found = got.Record
	}
	return found
}

// find reads a record that must be there, and the same on every instance.
func (s *fixture) find(t *testing.T, id store.ID) store.Record {
	t.Helper()
	found, err := s.Store.Find(s.ctx, id, store.Viewer{All: true})
	require.NoError(t, err)
	for _, st := range s.instances[1:] {
		other, err := st.Find(s.ctx, id, store.Viewer{All: true})
		require.NoError(t, err)
		requireSame(t, found, other)
	}
	return found
}

// requireState checks the state that every reader sees: Find, List, and a claim that must not win.
func (s *fixture) requireState(t *testing.T, want store.State, c store.Claim) {
	t.Helper()
	require.Equal(t, want, s.find(t, c.ID).State(), "Find")
	require.Equal(t, want, s.lose(t, repeat(c)).State(), "Claim")
	require.Equal(t, want == store.Unknown, slices.Contains(s.listed(t), c.ID), "List")
}

// listed returns the ids of all unknown operations.
func (s *fixture) listed(t *testing.T) []store.ID {
	t.Helper()
	records, err := s.Store.List(s.ctx, store.Query{Unknown: true, Limit: 1000})
	require.NoError(t, err)
	return idsOf(records)
}

func idsOf(records []store.Record) []store.ID {
	ids := make([]store.ID, 0, len(records))
	for _, r := range records {
		ids = append(ids, r.ID)
	}
	return ids
}

// requireFree checks that nothing holds the key: it claims the key for another command. It returns the new record.
func (s *fixture) requireFree(t *testing.T, id store.ID) store.Record {
	t.Helper()
	s.requireGoneOrFree(t, id)
	c := otherCommand(s.command(store.Park))
	c.ID = id
	r := s.win(t, c)
	requireNew(t, c, r)
	requireNew(t, c, s.find(t, id))
	return r
}

// requireGoneOrFree: a reader cannot tell a record that was dropped from one that a sweep would drop.
func (s *fixture) requireGoneOrFree(t *testing.T, id store.ID) {
	t.Helper()
	r, err := s.Store.Find(s.ctx, id, store.Viewer{All: true})
	if !errors.Is(err, store.ErrNotFound) {
		require.NoError(t, err)
		require.Equal(t, store.Free, r.State())
	}
}

// brief describes the outcome of a claim in a message.
func brief(got store.Claimed) string {
	if got.Busy {
		return "busy"
	}
	if got.KeyRefused {
		return "a key that its time forbids"
	}
	r := got.Record
	return fmt.Sprintf("a record that is %s (%s, fence %d)", r.State(), r.Recovery, r.Fence)
}

// requireNew checks that r is the row of a new attempt of c, and holds nothing of an earlier life of the key.
func requireNew(t *testing.T, c store.Claim, r store.Record) {
	t.Helper()
	require.Equal(t, store.Running, r.Stored)
	requireSame(t, store.Record{
		Ticket: store.Ticket{ID: c.ID, Owner: c.Owner, Fence: r.Fence},
		Scope:  c.Scope, Realm: c.Realm, Method: c.Method, Route: c.Route, Recovery: c.Recovery, Hash: c.Hash, Stored: store.Running,
		Timed:    c.Key.Timed,
		Attempts: 1, Traceparent: c.Traceparent,
		CreatedAt: r.CreatedAt, LeaseUntil: r.CreatedAt.Add(c.Lease), Deadline: r.CreatedAt.Add(c.Deadline),
	}, r)
	require.False(t, r.CreatedAt.IsZero(), "CreatedAt")
	require.False(t, r.Now.Before(r.CreatedAt), "a record is not read before it was made: Now is the store's clock")
}

// requireSame compares two records but for the moment they were read at. Times are compared by their distance from
// CreatedAt, because a Subject may move its rows instead of its clock. They are compared to the second, because a
// database may read its clock more than once in a statement.
func requireSame(t *testing.T, want, got store.Record) {
	t.Helper()
	requireAnswer(t, want.Answer, got.Answer)
	require.Equal(t, shapeOf(want), shapeOf(got))
}

// shape is a record with the times that matter as durations.
type shape struct {
	store.Record
	Lease, Deadline, Expires, Purge time.Duration
}

func shapeOf(r store.Record) shape {
	since := func(at time.Time) time.Duration {
		if at.IsZero() {
			return 0
		}
		return at.Sub(r.CreatedAt).Round(time.Second)
	}
	c := shape{r, since(r.LeaseUntil), since(r.Deadline), since(r.ExpiresAt), since(r.PurgeAt)}
	c.Record.CreatedAt, c.Record.LeaseUntil, c.Record.Deadline = time.Time{}, time.Time{}, time.Time{}
	c.Record.ExpiresAt, c.Record.PurgeAt, c.Record.Now = time.Time{}, time.Time{}, time.Time{}
	c.Record.Answer = store.Answer{}
	return c
}

// requireAnswer compares answers: an empty body or header is as good as none.
func requireAnswer(t *testing.T, want, got store.Answer) {
	t.Helper()
	require.Equal(t, want.Status, got.Status, "status")
	require.Equal(t, want.Partial, got.Partial, "partial")
	require.Len(t, got.Header, len(want.Header), "header names: %v", got.Header)
	for name, values := range want.Header {
		require.Equal(t, values, got.Header[name], "values of header %s", name)
	}
	if len(want.Body) < 1000 {
		require.Equal(t, string(want.Body), string(got.Body), "body")
	} else {
		require.True(t, bytes.Equal(want.Body, got.Body), "a body of %d bytes came back with %d, or others", len(want.Body),
			len(got.Body))
	}
}

// atOnce runs f in n goroutines that start together, and waits for them. f may use assert, not require.
func atOnce(n int, f func(i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// sweep sweeps until there is nothing left to do.
func (s *fixture) sweep(t *testing.T) (total store.Swept) {
	t.Helper()
	for {
		swept, err := s.Store.Sweep(s.ctx, 100, store.Window{})
		require.NoError(t, err)
		if swept == (store.Swept{}) {
			return total
		}
		total.Tombstones += swept.Tombstones
		total.Dropped += swept.Dropped
	}
}

// noSentinel: an error that means "the store did not answer" must not claim to know more.
func noSentinel(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	for _, sentinel := range []error{store.ErrStale, store.ErrNotFound, store.ErrNotSettleable, store.ErrFull} {
		assert.NotErrorIs(t, err, sentinel)
	}
}
