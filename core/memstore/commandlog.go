package memstore

import (
	"context"
	"time"

	"github.com/auth19/idem/core/store"
)

var _ store.CommandLog = (*Store)(nil)

// commandLog are the commands that have arrived, kept apart from the records: a route is watched for some time only. There
// are at most as many as records; then the oldest are dropped. No claim depends on them.
type commandLog struct {
	byKey     map[store.ID]*loggedCommand
	byCommand map[sent][]*loggedCommand // in the order they came
	all       []*loggedCommand          // in the order they came
}

func newCommandLog() commandLog {
	return commandLog{byKey: map[store.ID]*loggedCommand{}, byCommand: map[sent][]*loggedCommand{}}
}

// loggedCommand is a command that came with a key for the first time, or without one.
type loggedCommand struct {
	store.LoggedCommand
	at, until time.Time
}

// sent is a command of one principal.
type sent struct {
	scope store.Scope
	hash  store.CommandHash
}

func (s *loggedCommand) sent() sent { return sent{s.Scope, s.Hash} }

// LogCommand implements [store.CommandLog].
func (s *Store) LogCommand(ctx context.Context, now store.LoggedCommand) (store.EarlierCommands, error) {
	if err := alive(ctx); err != nil {
		return store.EarlierCommands{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.commands
	this := &loggedCommand{now, s.now(), time.Time{}}
	this.until = this.at.Add(now.Keep)
	first := w.byKey[now.ID] // nil for the zero ID: those without a key are not there
	if first != nil && !this.at.Before(first.until) {
		first = nil
	}
	earlier := store.EarlierCommands{Key: first != nil}
	if earlier.Key {
		earlier.First = first.Hash
	}
	earlier.Earlier, earlier.Rekeyed = w.lastOf(this, first)
	refused := now.Tentative && earlier.Rekeyed
	if !earlier.Key && !refused {
		w.add(this)
		for len(w.all) > s.max {
			w.dropOldest()
		}
	}
	return earlier, nil
}

// lastOf finds the latest arrival of the same command under another key that was before the key came first.
func (w *commandLog) lastOf(this, first *loggedCommand) (store.ID, bool) {
	same := w.byCommand[this.sent()]
	for i := len(same) - 1; i >= 0 && same[i].at.After(this.at.Add(-this.Window)); i-- {
		other := same[i]
		if (other.ID != this.ID || this.ID == store.ID{}) && (first == nil || other.at.Before(first.at)) {
			return other.ID, true
		}
	}
	return store.ID{}, false
}

func (w *commandLog) add(this *loggedCommand) {
	if this.ID != (store.ID{}) {
		w.byKey[this.ID] = this
	}
	w.byCommand[this.sent()] = append(w.byCommand[this.sent()], this)
	w.all = append(w.all, this)
}

// dropOldest forgets the command that came first, which is also the first of its command.
func (w *commandLog) dropOldest() {
	oldest := w.all[0]
	w.all[0] = nil // let the collector have it
	w.all = w.all[1:]
	if w.byKey[oldest.ID] == oldest {
		delete(w.byKey, oldest.ID)
	}
	if same := w.byCommand[oldest.sent()]; len(same) > 1 {
		same[0] = nil
		w.byCommand[oldest.sent()] = same[1:]
	} else {
		delete(w.byCommand, oldest.sent())
	}
}

// sweep forgets up to limit commands past their time. One that is behind another that is kept longer waits for it.
func (w *commandLog) sweep(now time.Time, limit int) (dropped int) {
	for dropped < limit && len(w.all) > 0 && !now.Before(w.all[0].until) {
		w.dropOldest()
		dropped++
	}
	return dropped
}
