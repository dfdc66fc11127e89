package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

var commandLogChecks = []check{
	{"CommandLog/SameKey", commandLogSameKey},
	{"CommandLog/OtherKey", commandLogOtherKey},
	{"CommandLog/Repeats", commandLogRepeats},
	{"CommandLog/Window", commandLogWindow},
	{"CommandLog/Tentative", commandLogTentative},
	{"CommandLog/Kept", commandLogKept},
	{"CommandLog/NoKey", commandLogNoKey},
	{"CommandLog/Apart", commandLogApart},
	{"CommandLog/LeavesRecords", commandLogLeavesRecords},
	{"CommandLog/Swept", commandLogSwept},
	{"CommandLog/ManyAtOnce", commandLogManyAtOnce},
	{"CommandLog/Cancelled", commandLogCancelled},
}

const window = 10 * time.Minute

// loggedCommand returns a command that has not come before, under a key that has not come before.
func (s *fixture) loggedCommand() store.LoggedCommand {
	c := s.command(store.Park)
	return store.LoggedCommand{ID: c.ID, Scope: c.Scope, Hash: c.Hash, Window: window, Keep: retention}
}

// rekeyed returns the same command under a new key.
func (s *fixture) rekeyed(c store.LoggedCommand) store.LoggedCommand {
	c.ID = s.command(store.Park).ID
	return c
}

func (s *fixture) log(t *testing.T, c store.LoggedCommand) store.EarlierCommands {
	t.Helper()
	earlier, err := s.watcher().LogCommand(s.ctx, c)
	require.NoError(t, err)
	return earlier
}

// watcher is one instance after the other.
func (s *fixture) watcher() store.CommandLog {
	s.sights++
	return s.watchers[s.sights%len(s.watchers)]
}

func commandLogSameKey(t *testing.T, s *fixture) {
	c := s.loggedCommand()
	require.Equal(t, store.EarlierCommands{}, s.log(t, c), "nothing has come before the first")
	require.Equal(t, store.EarlierCommands{Key: true, First: c.Hash}, s.log(t, c))
	other := c
	other.Hash = hashOf("another command")
	require.Equal(t, store.EarlierCommands{Key: true, First: c.Hash}, s.log(t, other))
	require.Equal(t, store.EarlierCommands{Key: true, First: c.Hash}, s.log(t, c), "the first command stands")
}

func commandLogOtherKey(t *testing.T, s *fixture) {
	first := s.loggedCommand()
	second := s.rekeyed(first)
	s.log(t, first)
	s.Advance(t, time.Second)
	require.Equal(t, store.EarlierCommands{Rekeyed: true, Earlier: first.ID}, s.log(t, second))
	s.Advance(t, time.Second)
	require.Equal(t, store.EarlierCommands{Rekeyed: true, Earlier: second.ID}, s.log(t, s.rekeyed(first)), "the latest counts")
}

// A repeat is judged as its key was judged the first time, whatever came in between.
func commandLogRepeats(t *testing.T, s *fixture) {
	first := s.loggedCommand()
	second := s.rekeyed(first)
	s.log(t, first)
	s.Advance(t, time.Second)
	s.log(t, second)
	require.Equal(t, store.EarlierCommands{Key: true, First: first.Hash}, s.log(t, first), "no key came before the first")
	require.Equal(t, store.EarlierCommands{Key: true, First: first.Hash, Rekeyed: true, Earlier: first.ID}, s.log(t, second))
}

func commandLogWindow(t *testing.T, s *fixture) {
	first := s.loggedCommand()
	s.log(t, first)
	s.Advance(t, window-time.Minute)
	second := s.rekeyed(first)
	require.Equal(t, store.EarlierCommands{Rekeyed: true, Earlier: first.ID}, s.log(t, second))
	s.Advance(t, 2*time.Minute)
	require.Equal(t, store.EarlierCommands{Key: true, First: first.Hash}, s.log(t, second), "the window is counted from now")
	s.Advance(t, window)
	require.Equal(t, store.EarlierCommands{}, s.log(t, s.rekeyed(first)))
}

// A request that will be refused is not noted: it does not make the next one suspect.
func commandLogTentative(t *testing.T, s *fixture) {
	first := s.loggedCommand()
	first.Tentative = true
	s.log(t, first)
	require.True(t, s.log(t, first).Key, "there was nothing to refuse")
	s.Advance(t, window/2)
	second := s.rekeyed(first)
	for range 2 {
		require.Equal(t, store.EarlierCommands{Rekeyed: true, Earlier: first.ID}, s.log(t, second))
	}
	s.Advance(t, window/2+time.Minute)
	third := s.rekeyed(first)
	require.Equal(t, store.EarlierCommands{}, s.log(t, third), "the second one was not noted")
	require.Equal(t, store.EarlierCommands{Key: true, First: first.Hash}, s.log(t, third))
}

func commandLogKept(t *testing.T, s *fixture) {
	c := s.loggedCommand()
	s.log(t, c)
	s.Advance(t, retention-time.Hour)
	require.True(t, s.log(t, c).Key)
	s.Advance(t, 2*time.Hour)
	require.Equal(t, store.EarlierCommands{}, s.log(t, c), "its time is over, swept or not")
	require.Equal(t, store.EarlierCommands{Key: true, First: c.Hash}, s.log(t, c), "and begins anew")
	s.Advance(t, retention-time.Hour)
	require.True(t, s.log(t, c).Key)
}

func commandLogNoKey(t *testing.T, s *fixture) {
	bare := s.loggedCommand()
	keyed := bare
	bare.ID = store.ID{}
	require.Equal(t, store.EarlierCommands{}, s.log(t, bare))
	s.Advance(t, time.Second)
	require.Equal(t, store.EarlierCommands{Rekeyed: true}, s.log(t, bare), "no key is no key to be known by")
	s.Advance(t, time.Second)
	require.Equal(t, store.EarlierCommands{Rekeyed: true}, s.log(t, keyed))
	s.Advance(t, time.Second)
	require.Equal(t, store.EarlierCommands{Rekeyed: true, Earlier: keyed.ID}, s.log(t, bare))
	s.Advance(t, 2*window)
	require.Equal(t, store.EarlierCommands{}, s.log(t, bare))
}

// CONTRACT S-1
func commandLogApart(t *testing.T, s *fixture) {
	c := s.loggedCommand()
	s.log(t, c)
	s.Advance(t, time.Second)

	otherCommand := s.rekeyed(c)
	otherCommand.Hash = hashOf("another command")
	require.Equal(t, store.EarlierCommands{}, s.log(t, otherCommand))

	p := core.Principal{Issuer: "https://issuer.example", Tenant: "t-1", Subject: "u-2"}
	otherPrincipal := c
	otherPrincipal.ID, otherPrincipal.Scope = core.Scoping{}.RecordID(p, s.key(1)), core.Scoping{}.PrincipalScope(p)
	require.Equal(t, store.EarlierCommands{}, s.log(t, otherPrincipal))
}

// CONTRACT M-6
func commandLogLeavesRecords(t *testing.T, s *fixture) {
	c := s.command(store.Park)
	earlier := store.LoggedCommand{ID: c.ID, Scope: c.Scope, Hash: c.Hash, Window: window, Keep: retention}
	require.Equal(t, store.EarlierCommands{}, s.log(t, earlier))
	r := s.win(t, c) // the log is no claim
	require.Equal(t, store.EarlierCommands{Key: true, First: c.Hash}, s.log(t, earlier))
	requireSame(t, r, s.find(t, c.ID))
}

func commandLogSwept(t *testing.T, s *fixture) {
	for range 5 {
		s.log(t, s.loggedCommand())
	}
	swept, err := s.Store.Sweep(s.ctx, 100, store.Window{})
	require.NoError(t, err)
	require.Equal(t, store.Swept{}, swept)

	s.Advance(t, retention+time.Hour)
	for _, want := range []int{3, 2, 0} {
		swept, err := s.Store.Sweep(s.ctx, 3, store.Window{})
		require.NoError(t, err)
		require.Equal(t, store.Swept{CommandLog: want}, swept)
	}
}

func commandLogManyAtOnce(t *testing.T, s *fixture) {
	c := s.loggedCommand()
	news := make([]bool, burst)
	atOnce(burst, func(i int) {
		earlier, err := s.watchers[i%len(s.watchers)].LogCommand(s.ctx, c)
		if assert.NoError(t, err) && earlier.Key {
			assert.Equal(t, c.Hash, earlier.First)
		}
		news[i] = err == nil && !earlier.Key
	})
	n := 0
	for _, isNew := range news {
		if isNew {
			n++
		}
	}
	require.Equal(t, 1, n, "one of many is the first")
}

func commandLogCancelled(t *testing.T, s *fixture) {
	ctx := s.over()
	c := s.loggedCommand()
	_, err := s.watchers[0].LogCommand(ctx, c)
	noSentinel(t, err)
	require.Equal(t, store.EarlierCommands{}, s.log(t, c))
}
