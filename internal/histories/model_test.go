package histories

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
)

// story makes a history of one key by hand. Each call of a method takes one unit of time. A request that is sent with during
// overlaps with all that happens before its answer.
type story struct {
	recovery core.Recovery
	now      int64
	ops      []*Op
}

func tell(r core.Recovery) *story { return &story{recovery: r} }

func (s *story) add(o Op) *Op {
	s.now++
	o.Key, o.Recovery, o.Client, o.Call, o.Return = "c/k", s.recovery, len(s.ops), 10*s.now, 10*s.now+1
	s.ops = append(s.ops, &o)
	return s.ops[len(s.ops)-1]
}

// sent adds a request that is answered at once.
func (s *story) sent(command string, a *Answer) *story {
	s.add(Op{Kind: Request, Command: command, Answer: a})
	return s
}

// during adds a request that is under way while f tells what else happens.
func (s *story) during(command string, a *Answer, f func()) *story {
	o := s.add(Op{Kind: Request, Command: command, Answer: a})
	f()
	s.now++
	o.Return = 10 * s.now
	return s
}

func (s *story) expired(really bool) *story {
	s.add(Op{Kind: Expire, Expired: really})
	return s
}

func (s *story) aged() *story {
	s.add(Op{Kind: Refuse})
	return s
}

func (s *story) audited(ledger, provider int) *story {
	s.add(Op{Kind: Audit, Ledger: ledger, Provider: provider})
	return s
}

func (s *story) history() (h History) {
	for _, o := range s.ops {
		h.Ops = append(h.Ops, *o)
	}
	return h
}

func created(body string) *Answer {
	return &Answer{Status: 201, Result: wire.ResultCreated, Body: body}
}

func reused(body string) *Answer {
	return &Answer{Status: 201, Result: wire.ResultReused, Body: body}
}

func refused(status int, code core.Code) *Answer { return &Answer{Status: status, Code: code} }

var (
	lost          *Answer // the connection was cut
	inFlight      = refused(409, core.CodeInFlight)
	keyReused     = refused(409, core.CodeKeyReused)
	parked        = refused(409, core.CodeOutcomeUnknown) // knows
	tooLate       = refused(409, core.CodeKeyExpired)
	old           = refused(409, core.CodeKeyTooOld)
	away          = refused(503, core.CodeStoreUnavailable)
	doubt         = &Answer{Status: 503, Code: core.CodeCommitUnconfirmed, Result: wire.ResultUnknown}
	internalError = &Answer{Status: 500}
	failed        = &Answer{Status: 500, Result: wire.ResultUnknown}
	declined      = &Answer{Status: 402, Result: wire.ResultCreated, Body: "no"}
)

// seenMeanwhile is a Resume attempt with an answer, whose record another command has met.
func seenMeanwhile(a *Answer) *story {
	s := tell(core.Resume)
	return s.during("a", a, func() { s.sent("b", keyReused) })
}

// woken is a payout that counts as unknown when its owner wakes up and answers. Meanwhile repeats are told that it is unknown,
// and then something else.
func woken(owner *Answer, repeats ...*Answer) *story {
	s := tell(core.Park)
	return s.during("a", owner, func() {
		s.sent("a", parked)
		for _, a := range repeats {
			s.sent("a", a)
		}
	})
}

// told is a story, and whether the model must allow it.
type told struct {
	good bool
	*story
}

// A model that allows everything proves nothing: these stories must be told apart.
var stories = map[string]told{
	"too old":                                 {true, tell(core.Park).aged().sent("a", old).audited(0, 0)},
	"too old, then answered":                  {true, tell(core.Park).sent("a", created("1")).aged().sent("a", reused("1")).audited(1, 1)},
	"too old, and executed":                   {false, tell(core.Park).aged().sent("a", created("1"))},
	"too old before it was":                   {false, tell(core.Park).sent("a", old).aged()},
	"too old although answered":               {false, tell(core.Park).sent("a", created("1")).aged().sent("a", old)},
	"too old while it ran":                    {true, tell(core.Rollback).during("a", created("1"), func() {}).aged().sent("a", reused("1"))},
	"too old, rolled back":                    {true, tell(core.Rollback).sent("a", internalError).aged().sent("a", old).audited(0, 0)},
	"too old, and charged":                    {false, tell(core.Rollback).sent("a", internalError).aged().sent("a", old).audited(1, 0)},
	"too old after a cut":                     {true, tell(core.Rollback).sent("a", lost).aged().sent("a", old).audited(0, 0)},
	"too old, then a cut executes":            {false, tell(core.Rollback).aged().sent("a", lost).sent("a", reused("1"))},
	"too old, and gone on with":               {true, tell(core.Resume).sent("a", internalError).aged().sent("a", created("1")).audited(1, 1)},
	"one payment":                             {true, tell(core.Rollback).sent("a", created("1")).sent("a", reused("1")).audited(1, 0)},
	"a second execution":                      {false, tell(core.Rollback).sent("a", created("1")).sent("a", created("2"))},
	"a second execution with the same answer": {false, tell(core.Rollback).sent("a", created("1")).sent("a", created("1"))},
	"two executions at once": {false, tell(core.Park).during("a", created("1"), func() {}).
		during("a", created("2"), func() {})},
	"another answer":                      {false, tell(core.Park).sent("a", created("1")).sent("a", reused("2"))},
	"two answers after a cut":             {false, tell(core.Park).sent("a", lost).sent("a", reused("1")).sent("a", reused("2"))},
	"a replay of what nobody did":         {false, tell(core.Park).sent("a", reused("1"))},
	"a replay of a refusal as a success":  {false, tell(core.Park).sent("a", declined).sent("a", reused("no"))},
	"a cut, and a replay":                 {true, tell(core.Park).sent("a", lost).sent("a", reused("1")).audited(1, 1)},
	"a cut that came too early":           {true, tell(core.Park).sent("a", lost).sent("a", created("1")).audited(1, 1)},
	"a cut that comes late":               {true, tell(core.Rollback).sent("a", lost).sent("a", inFlight).sent("a", reused("1"))},
	"a cut, executed twice":               {false, tell(core.Rollback).sent("a", lost).sent("a", reused("1")).sent("a", created("2"))},
	"a cut, charged twice":                {false, tell(core.Park).sent("a", lost).sent("a", parked).audited(0, 2)},
	"a cut, and nobody knows":             {true, tell(core.Park).sent("a", lost).sent("a", parked).audited(0, 1)},
	"unknown, and then known":             {true, tell(core.Park).sent("a", lost).sent("a", parked).sent("a", reused("1"))},
	"unknown for no reason":               {false, tell(core.Park).sent("a", parked)},
	"unknown after the answer":            {false, tell(core.Park).sent("a", created("1")).sent("a", parked)},
	"unknown in Rollback":                 {false, tell(core.Rollback).sent("a", lost).sent("a", parked)},
	"unknown, freed by its owner":         {true, woken(internalError).sent("a", created("1")).audited(1, 1)},
	"freed by its owner, for another":     {true, woken(internalError).sent("b", created("1")).audited(1, 1)},
	"freed by its owner, in flight":       {true, woken(internalError, inFlight).sent("a", created("1")).audited(1, 1)},
	"freed by its owner, and charged":     {false, woken(internalError, inFlight).audited(0, 1)},
	"in flight after its owner's word":    {false, woken(internalError).sent("a", inFlight)},
	"in flight, and no word of its owner": {false, woken(failed, inFlight)},
	"in flight, and its owner completes":  {false, woken(created("1"), inFlight)},
	"run again without its owner's word":  {false, woken(failed).sent("a", created("1"))},
	"charged and lost":                    {false, tell(core.Park).sent("a", created("1")).audited(0, 1)},
	"charged twice":                       {false, tell(core.Resume).sent("a", created("1")).audited(1, 2)},
	"declined":                            {true, tell(core.Resume).sent("a", declined).audited(0, 0)},
	"declined and charged":                {false, tell(core.Resume).sent("a", declined).audited(1, 1)},
	"rolled back and charged":             {false, tell(core.Rollback).sent("a", internalError).audited(1, 0)},
	"rolled back, and again":              {true, tell(core.Rollback).sent("a", internalError).sent("a", created("1")).audited(1, 0)},
	"rolled back, and replayed":           {false, tell(core.Rollback).sent("a", internalError).sent("a", reused("1"))},
	"in flight":                           {true, tell(core.Park).during("a", created("1"), func() {}).sent("a", reused("1"))},
	"in flight for ever":                  {false, tell(core.Park).sent("a", created("1")).sent("a", inFlight)},
	"in flight of nobody":                 {false, tell(core.Park).sent("a", inFlight)},
	"key reused":                          {true, tell(core.Park).sent("a", created("1")).sent("b", keyReused)},
	"key reused of nobody":                {false, tell(core.Park).sent("b", keyReused)},
	"key reused by itself":                {false, tell(core.Park).sent("a", created("1")).sent("a", keyReused)},
	"a replay after key reused": {false, tell(core.Park).sent("a", created("1")).sent("b", keyReused).
		sent("b", reused("1"))},
	"another's answer":               {false, tell(core.Park).sent("a", created("1")).sent("b", reused("1"))},
	"two commands, both applied":     {false, tell(core.Park).sent("a", created("1")).sent("b", created("2"))},
	"unconfirmed and there":          {true, tell(core.Rollback).sent("a", doubt).sent("a", reused("1")).audited(1, 0)},
	"unconfirmed and not there":      {true, tell(core.Rollback).sent("a", doubt).sent("a", created("1")).audited(1, 0)},
	"away, and nothing run":          {true, tell(core.Park).sent("a", away).sent("a", created("1")).audited(1, 1)},
	"away, and run":                  {false, tell(core.Park).sent("a", away).sent("a", reused("1"))},
	"away, a claim that landed":      {true, tell(core.Park).sent("a", away).sent("a", inFlight).sent("a", parked).audited(0, 0)},
	"away, a claim taken back late":  {true, tell(core.Park).sent("a", away).sent("a", parked).sent("a", created("1"))},
	"a cut, a claim taken back late": {true, tell(core.Park).sent("a", lost).sent("a", parked).sent("a", created("1"))},
	"fails in Park":                  {true, tell(core.Park).sent("a", failed).sent("a", parked).audited(0, 1)},
	"fails in Park, and again":       {false, tell(core.Park).sent("a", failed).sent("a", parked).sent("a", created("1"))},
	"fails in Park, unseen, and again": {false, tell(core.Park).during("a", failed, func() {}).sent("a", parked).
		sent("b", created("1"))},
	"fails in Resume before its first commit": {true, tell(core.Resume).sent("a", internalError).sent("b", created("1")).audited(1, 1)},
	"fails in Resume behind it":               {false, seenMeanwhile(internalError).sent("b", created("1"))},
	"goes on in Resume behind it":             {true, seenMeanwhile(internalError).sent("a", created("1")).audited(1, 1)},
	"fails in Resume":                         {true, tell(core.Resume).sent("a", internalError).sent("a", created("1")).audited(1, 1)},
	"fails in Resume, in flight":              {true, tell(core.Resume).sent("a", lost).sent("a", inFlight).sent("a", created("1"))},
	"answered twice in Resume":                {false, tell(core.Resume).sent("a", lost).sent("a", created("1")).sent("a", created("2"))},
	"expired":                                 {true, tell(core.Park).sent("a", created("1")).expired(true).sent("a", tooLate).sent("b", keyReused)},
	"expired, and run again":                  {false, tell(core.Park).sent("a", created("1")).expired(true).sent("a", created("2"))},
	"expired, and replayed":                   {false, tell(core.Park).sent("a", created("1")).expired(true).sent("a", reused("1"))},
	"expired for no reason":                   {false, tell(core.Park).sent("a", created("1")).sent("a", tooLate)},
	"expired, and never there":                {false, tell(core.Park).expired(true)},
	"there, and not to expire":                {false, tell(core.Park).sent("a", created("1")).expired(false)},
	"an answer nobody expects":                {false, tell(core.Park).sent("a", &Answer{Status: 200, Body: "1"})},
}

// CONTRACT M-1, M-2, M-3, M-4, M-5, M-6, X-2
func TestModel(t *testing.T) { tellApart(t, stories) }

func tellApart(t *testing.T, stories map[string]told) {
	t.Helper()
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			v := Check(s.history(), time.Minute)
			require.Empty(t, v.TooLarge)
			require.Equal(t, s.good, len(v.Illegal) == 0)
		})
	}
}

// TestModelOfWhatHappensAtOnce is about operations that overlap.
func TestModelOfWhatHappensAtOnce(t *testing.T) {
	meanwhile := func(r core.Recovery, first *Answer, command string, second *Answer) bool {
		s := tell(r)
		s.during("a", first, func() { s.sent(command, second) })
		return len(Check(s.history(), time.Minute).Illegal) == 0
	}
	require.True(t, meanwhile(core.Park, created("1"), "a", inFlight))
	require.True(t, meanwhile(core.Park, created("1"), "a", reused("1")))
	require.True(t, meanwhile(core.Park, created("1"), "b", keyReused))
	require.True(t, meanwhile(core.Rollback, created("1"), "b", inFlight))
	require.True(t, meanwhile(core.Rollback, internalError, "a", created("2")))
	require.True(t, meanwhile(core.Park, created("1"), "a", parked), "its lease had run out")
	require.True(t, meanwhile(core.Park, created("1"), "b", inFlight), "its claim had not committed")
	require.False(t, meanwhile(core.Park, created("1"), "a", created("2")))
	require.False(t, meanwhile(core.Park, created("1"), "a", reused("2")))
	require.False(t, meanwhile(core.Park, created("1"), "b", created("2")))

	// in_flight and key_reused must come from the same attempt.
	s := tell(core.Park)
	s.during("a", created("1"), func() { s.sent("b", keyReused).sent("a", inFlight).sent("a", reused("1")) })
	require.Empty(t, Check(s.history(), time.Minute).Illegal)
	s = tell(core.Park)
	s.during("a", created("1"), func() { s.sent("a", reused("1")).sent("a", inFlight) })
	require.NotEmpty(t, Check(s.history(), time.Minute).Illegal)
}

// TestModelOfAnAttemptThatAnotherOneFollows is about a Resume attempt that has failed. The end of its lease was stored, but not
// confirmed, and it met the next attempt when it tried again. Then it is told what a repeat is told.
//
// CONTRACT X-3
func TestModelOfAnAttemptThatAnotherOneFollows(t *testing.T) {
	for _, told := range []*Answer{inFlight, reused("1")} {
		s := tell(core.Resume)
		s.during("a", told, func() { s.sent("b", keyReused).sent("a", created("1")) })
		require.Empty(t, Check(s.history(), time.Minute).Illegal, "its claim had the key before the next attempt")

		s = tell(core.Resume)
		s.during("b", told, func() { s.sent("b", keyReused).sent("a", created("1")) })
		require.NotEmpty(t, Check(s.history(), time.Minute).Illegal, "a command that no attempt has")

		s = tell(core.Resume).aged()
		s.during("a", told, func() { s.sent("a", created("1")) })
		require.NotEmpty(t, Check(s.history(), time.Minute).Illegal, "no attempt begins with an old key")
	}
}

// TestKeysArePartitions shows that each key has a history of its own.
func TestKeysArePartitions(t *testing.T) {
	h := tell(core.Park).sent("a", created("1")).sent("a", created("2")).history()
	h.Ops[1].Key = "c/another"
	require.Empty(t, Check(h, time.Minute).Illegal)
}

// TestKeep shows that the history that was checked is the one that is kept, and that it is drawn.
func TestKeep(t *testing.T) {
	h := tell(core.Park).sent("a", lost).sent("a", created("1")).sent("a", parked).history()
	h.Seed = 7
	folder := t.TempDir()
	drawing, err := h.Keep(folder, "c/k")
	require.NoError(t, err)
	require.FileExists(t, drawing)
	kept, err := Load(folder + "/seed-7-c-k.json")
	require.NoError(t, err)
	require.Equal(t, h, kept)
	require.Equal(t, []string{"c/k"}, Check(kept, time.Minute).Illegal)
	h = tell(core.Park).sent("b", lost).sent("c", keyReused).settled(free, accepted).audited(0, 1).history()
	for i := range h.Ops {
		h.Ops[i].Call, h.Ops[i].Return = int64(i)*1e6, int64(i+1)*1e6
	}
	require.Equal(t, "A is b\n0-1 0 A: no answer\nB is c\n1-2 1 B: 409 key_reused \n2-3 2 settle as \"\": 200  created\n"+
		"3-4 3 audit: 0 in the ledger, 1 at the provider\n", h.text("c/k"))
}
