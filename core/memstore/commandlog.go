package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// arrival is a command that came with a key for the first time, or without one. There are at most as many as records: then
// the oldest are dropped. No claim depends on them.
type arrival struct {
	store.LoggedCommand
	at, until time.Time
}

// LogCommand implements [store.CommandLog]. It looks at every command that has arrived.
func (s *Store) LogCommand(ctx context.Context, now store.LoggedCommand) (store.EarlierCommands, error) {
	return get(ctx, s, func(at time.Time) (earlier store.EarlierCommands, err error) {
		known := slices.IndexFunc(s.commands, func(o arrival) bool {
			return o.ID == now.ID && now.ID != store.ID{} && at.Before(o.until)
		})
		begun := at // when the key came first
		if earlier.Key = known >= 0; earlier.Key {
			earlier.First, begun = s.commands[known].Hash, s.commands[known].at
		}
		for _, o := range slices.Backward(s.commands) {
			anotherKey := o.ID != now.ID || now.ID == store.ID{}
			before := !earlier.Key || o.at.Before(begun)
			if anotherKey && before && o.Scope == now.Scope && o.Hash == now.Hash && o.at.After(at.Add(-now.Window)) {
				earlier.Earlier, earlier.Rekeyed = o.ID, true
				break
			}
		}
		refused := now.Tentative && earlier.Rekeyed
		if !earlier.Key && !refused {
			s.commands = append(s.commands, arrival{now, at, at.Add(now.Keep)})
			s.commands = s.commands[max(0, len(s.commands)-s.max):]
		}
		return earlier, nil
	})
}
