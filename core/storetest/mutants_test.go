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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/storetest"
)

// A suite that cannot fail proves nothing. Each mutant is a store with one fault, and names the tests that must find it,
// each of them alone. These tests fail, so they run in processes of their own.
type mutant struct {
	name  string // the mistake
	fails string // the tests
	fault func(s *faulty)
}

// mutants are all mutants, by what the store can do.
var mutants = []struct {
	can  storetest.Features
	view func(*faulty) store.Operations
	of   []mutant
}{
	{
		storetest.Features{}, func(s *faulty) store.Operations { return struct{ store.Operations }{s} },
		slices.Concat(storeMutants, countMutants, inspectMutants, importMutants, markMutants),
	},
	{
		everything, func(s *faulty) store.Operations { return s },
		slices.Concat(stepMutants, sightMutants, eraseMutants, referenceMutants, noteMutants, proposalMutants, txMutants,
			segmentMutants),
	},
	{
		storetest.Features{Settings: true},
		func(s *faulty) store.Operations {
			return struct {
				store.Operations
				settings
			}{s, s}
		},
		slices.Concat(scopingMutants, keyTimeMutants),
	},
}

// settings are the methods that store.Settings has beside those of store.Store.
type settings interface {
	KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error)
	AdoptScoping(ctx context.Context, namespace, fingerprint string) error
	KeepAge(ctx context.Context, service []byte, route string, age time.Duration, w store.Window) (store.AgeLimit, error)
	RefuseKeysBefore(ctx context.Context, service []byte, r store.Refusal) error
}

// Without a fault it is sound: what the tests find is the fault.
func TestNoFault(t *testing.T) {
	storetest.Run(t, newMutant(func(*faulty) {}, func(s *faulty) store.Operations { return s }), everything)
}

func TestMutants(t *testing.T) {
	known := map[string]bool{}
	for _, group := range mutants {
		for _, m := range group.of {
			require.False(t, known[m.name], "two mutants have the name %q", m.name)
			known[m.name] = true
			for test := range strings.FieldsSeq(m.fails) {
				name := m.name
				if test == "Stress" {
					name += ", under stress"
				}
				t.Run(name, func(t *testing.T) { requireFails(t, m.name, test) })
			}
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
	for _, group := range mutants {
		for _, m := range group.of {
			if m.name == os.Getenv(mutantEnv) {
				open := newMutant(m.fault, group.view)
				storetest.Run(t, open, group.can)
				t.Run("Stress", func(t *testing.T) { storetest.Stress(t, open, group.can) })
				return
			}
		}
	}
	t.Skip("TestMutants runs this")
}

var storeMutants = []mutant{
	// Claim.
	{"looks before it claims", "Claim/OneOfManyWins Stress", func(s *faulty) {
		s.claim = func(ctx context.Context, c store.Claim) (store.Claimed, error) {
			_, err := s.reference.Find(ctx, c.ID, store.Viewer{All: true})
			runtime.Gosched()
			got, claimErr := s.reference.Claim(ctx, c)
			got.Won = got.Won || errors.Is(err, store.ErrNotFound)
			return got, claimErr
		}
	}},
	{"locks others out of the row", "Claim/FirstWins", func(s *faulty) {
		s.claim.answers(func(_ store.Claim, got *store.Claimed) {
			if !got.Won {
				*got = store.Claimed{Busy: true}
			}
		})
	}},
	{"keeps one value per header", "Claim/RoundTrip", onComplete(func(c *completion) {
		h := http.Header{}
		for name := range c.Answer.Header {
			h.Set(name, c.Answer.Header.Get(name))
		}
		c.Answer.Header = h
	})},
	{"keeps headers as JSON", "Claim/RoundTrip", onComplete(func(c *completion) {
		text, _ := json.Marshal(c.Answer.Header)
		c.Answer.Header = nil
		_ = json.Unmarshal(text, &c.Answer.Header)
	})},
	{"runs Park again", "Claim/ParkNeverAgain Stress", givesAway(func(_ store.Claim, r store.Record) bool {
		return r.State() == store.Unknown && r.Stored == store.Running
	})},
	{"takes over any command", "TakeOver/Refused", givesAway(func(c store.Claim, r store.Record) bool {
		return r.Recovery == store.Resume && c.Recovery == store.Resume && r.Hash != c.Hash && r.LeaseExpired()
	})},
	{"takes over for any recovery", "TakeOver/Refused", givesAway(func(c store.Claim, r store.Record) bool {
		return r.Recovery == store.Resume && c.Recovery != store.Resume && r.Hash == c.Hash && r.LeaseExpired()
	})},
	{"takes over early", "TakeOver/Resume", givesAway(func(c store.Claim, r store.Record) bool {
		return r.Recovery == store.Resume && r.Stored == store.Running && r.Hash == c.Hash
	})},
	{"keeps no trace", "Claim/FirstWins", onClaim(func(c *store.Claim) { c.Traceparent = "" })},
	{"keeps the first trace", "TakeOver/Resume", func(s *faulty) {
		var first sync.Map
		s.claim.asks(func(c *store.Claim) {
			trace, _ := first.LoadOrStore(c.ID, c.Traceparent)
			c.Traceparent = trace.(string)
		})
	}},

	// Release.
	{"releases for anybody", "Release/OfAnother Stress", func(s *faulty) {
		s.release.asks(func(t *store.Ticket) { *t = s.there(t.ID).Ticket })
	}},
	{"releases what is done", "Release/NotRunning", func(s *faulty) { s.release.forgives(store.ErrStale) }},
	{"refuses late releases", "Release/Late", punctual},
	{"wants a fence to release", "Release/ByOwnerAlone", func(s *faulty) {
		s.release.skips(none{}, nil, func(t store.Ticket) bool { return t.Fence == 0 })
	}},
	{"frees finished steps", "Release/ByOwnerAlone", func(s *faulty) { // of one who was taken over
		s.release.asks(func(t *store.Ticket) {
			if r := s.there(t.ID); r.Owner == t.Owner && r.Stored == store.Running {
				*t = r.Ticket
			}
		})
	}},
	{"lands cancelled claims", "Release/AfterLostClaim", func(s *faulty) { // after their owner has released them
		var mu sync.Mutex
		var late []store.Claim
		s.claim = func(ctx context.Context, c store.Claim) (store.Claimed, error) {
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() != nil {
				late = append(late, c)
				return store.Claimed{}, ctx.Err()
			}
			for _, c := range late {
				_, _ = s.reference.Claim(ctx, c)
			}
			late = nil
			return s.reference.Claim(ctx, c)
		}
	}},

	// The end of an attempt.
	{"completes by the fence only", "Complete/Stale", func(s *faulty) {
		s.complete.asks(func(c *completion) {
			if r := s.there(c.ID); r.Fence == c.Fence {
				c.Ticket = r.Ticket
			}
		})
	}},
	{"refuses late answers", "Complete/Late", punctual},
	{"takes the last answer", "Complete/Idempotent Stress", func(s *faulty) {
		var last memory[store.Answer]
		s.complete.answers(func(c completion, _ *none) { last.Store(c.ID, c.Answer) })
		s.replays(&last)
	}},
	{"refuses a second completion", "Complete/Idempotent", refusesWhere(store.Completed)},
	{"forgets the parked owner", "Park/ThenComplete", refusesWhere(store.Unknown)},
	{"parks what is done", "Park/AfterComplete", func(s *faulty) { // and answers ErrStale as it should
		var parked sync.Map
		s.park.ends(func(t completion, _ *none, err *error) {
			if errors.Is(*err, store.ErrStale) {
				parked.Store(t.ID, true)
			}
		})
		s.find.answers(func(id store.ID, r *store.Record) {
			if _, ok := parked.Load(id); ok && r.Stored == store.Completed {
				r.Stored = store.Unknown
			}
		})
	}},
	{"renews without end", "Renew/Extends", func(s *faulty) { // past the deadline
		var renewed memory[time.Time]
		s.renew.asks(func(c *completion) { renewed.Store(c.ID, s.there(c.ID).Now.Add(c.lease)) })
		s.find.answers(func(id store.ID, r *store.Record) {
			if until, ok := renewed.of(id); ok {
				r.LeaseUntil = until
			}
		})
	}},
	{"renews nothing", "Renew/Extends", func(s *faulty) { s.renew.says(none{}) }},

	// How attempts have ended.
	{"yields nothing", "TakeOver/Ends", func(s *faulty) { s.yield.says(none{}) }},
	{"forgets the end at a yield", "TakeOver/Ends", func(s *faulty) { s.yield.asks(func(c *completion) { c.ends = nil }) }},
	{"forgets the end at a park", "TakeOver/Ends", func(s *faulty) { s.park.asks(func(c *completion) { c.ends = nil }) }},
	{"forgets the ends at a takeover", "TakeOver/Ends", func(s *faulty) {
		s.claim.answers(func(_ store.Claim, got *store.Claimed) { got.Record.Ends = nil })
	}},
	{"forgets at a settlement that the process has gone", "Settle/Applied", func(s *faulty) {
		s.settle.answers(func(_ store.Settlement, r *store.Record) { r.Ends = nil })
	}},
	{"a new life has the ends of the one before", "TakeOver/Ends", func(s *faulty) {
		var ends memory[[]byte]
		s.park.asks(func(c *completion) { ends.Store(c.ID, c.ends) })
		s.find.answers(func(id store.ID, r *store.Record) {
			if before, ok := ends.of(id); ok && r.Ends == nil {
				r.Ends = before
			}
		})
	}},

	// Retention.
	{"keeps answers for ever", "Retention/InTurn", onComplete(func(c *completion) { c.Retention *= 100 })},
	{"keeps no tombstone", "Retention/InTurn", onComplete(func(c *completion) { c.Tombstone = 0 })},
	{"always keeps a tombstone", "Retention/NoTombstone", onComplete(func(c *completion) {
		c.Tombstone = max(c.Tombstone, 24*time.Hour)
	})},
	{"sweeps all at once", "Sweep/Limits", func(s *faulty) { s.sweep.asks(func(q *question) { q.limit = 1 << 20 }) }},
	{"sweeps nothing", "Retention/Swept", func(s *faulty) { s.sweep.says(store.Swept{}) }},
	{"counts twice", "Sweep/ManyAtOnce", func(s *faulty) { // what another sweep may have done
		s.sweep.answers(func(_ question, swept *store.Swept) { swept.Tombstones *= 2 })
	}},
	{"never sweeps the late", "Sweep/HoweverEnded", func(s *faulty) {
		s.complete.asks(func(c *completion) {
			if s.there(c.ID).State() == store.Unknown {
				c.Retention *= 1000
			}
		})
	}},

	// Settlements.
	{"starts fences anew", "Settle/OldDecision", func(s *faulty) {
		s.settle.asks(func(d *store.Settlement) {
			if r := s.there(d.ID); d.Fence == 1 && r.Recovery == store.Park {
				d.Fence = r.Fence
			}
		})
	}},
	{"settles too early", "Settle/TooEarly", settlesAlso(func(_ store.Settlement, r store.Record) bool {
		return r.State() == store.Unknown && r.LeaseExpired() // before the deadline
	})},
	{"settles by the last fence", "Settle/OldDecision", func(s *faulty) {
		s.settle.asks(func(d *store.Settlement) { d.Fence = s.there(d.ID).Fence })
	}},
	{"settles twice", "Settle/Once", settlesAlso(func(d store.Settlement, r store.Record) bool {
		return r.Fence > d.Fence
	})},

	// Find and List.
	{"finds what is not there", "Find/NotFound", func(s *faulty) {
		s.find.ends(func(_ store.ID, r *store.Record, err *error) {
			if errors.Is(*err, store.ErrNotFound) {
				*r, *err = store.Record{Stored: store.Free}, nil
			}
		})
	}},
	{"lists the newest first", "List/OldestFirst", func(s *faulty) { s.list.answers(reversed) }},
	{"pages by age", "List/SameAge", func(s *faulty) {
		s.list.answers(func(q store.Query, page *[]store.Record) {
			*page = slices.DeleteFunc(*page, func(r store.Record) bool { return r.CreatedAt.Equal(q.After.CreatedAt) })
		})
	}},
	{"lists every realm", "List/Within", onList(func(q *store.Query) { q.Within = nil })},
	{"loses what runs beside a sweep", "List/Swept", func(s *faulty) { // loses what is running when a sweep comes by
		var running, lost sync.Map
		s.claim.answers(func(c store.Claim, got *store.Claimed) {
			if got.Won {
				running.Store(c.ID, true)
			}
		})
		s.park.asks(func(t *completion) {
			running.Delete(t.ID)
			lost.Delete(t.ID)
		})
		s.sweep.asks(func(*question) {
			running.Range(func(id, _ any) bool {
				lost.Store(id, true)
				return true
			})
		})
		s.hides(&lost)
	}},
	{"lists the parked first", "List/Swept", func(s *faulty) {
		s.list = func(ctx context.Context, q store.Query) ([]store.Record, error) {
			after, limit := q.After, q.Limit
			q.After, q.Limit = store.Cursor{}, 1000
			all, err := s.reference.List(ctx, q)
			slices.SortStableFunc(all, func(a, b store.Record) int { return int(b.Stored) - int(a.Stored) })
			if i := slices.IndexFunc(all, func(r store.Record) bool { return r.ID == after.ID }); i >= 0 {
				all = all[i+1:]
			}
			return all[:min(limit, len(all))], err
		}
	}},
	{"goes one way only", "List/ClockBack", func(s *faulty) { // past what was claimed at a time that was over already
		var mu sync.Mutex
		var latest time.Time
		var behind sync.Map
		s.claim.answers(func(c store.Claim, got *store.Claimed) {
			mu.Lock()
			defer mu.Unlock()
			if got.Won && got.Record.Now.Before(latest) {
				behind.Store(c.ID, true)
			} else if got.Won {
				latest = got.Record.Now
			}
		})
		s.hides(&behind)
	}},

	// The clock, and contexts.
	{"believes any clock", "Window/Expired", anyClock},
	{"settles by any clock", "Window/Settle", anyClock},
	{"takes over by any clock", "Window/Lapsed", anyClock},
	{"sweeps by any clock", "Window/Expired", func(s *faulty) { s.sweep.asks(byAnyClock) }},
	{"does not heed the context", "Cancel/NothingHappens", func(s *faulty) { s.complete.regardless() }},
}

// givesAway gives an existing row to a claim that has no right to it.
func givesAway(when func(store.Claim, store.Record) bool) func(*faulty) {
	return func(s *faulty) {
		s.claim.answers(func(c store.Claim, got *store.Claimed) {
			if !got.Won && when(c, got.Record) {
				got.Won = true
				got.Record.Owner = c.Owner
			}
		})
	}
}

// punctual refuses the owner as soon as its lease is over, although nobody has taken over.
func punctual(s *faulty) {
	late := func(t store.Ticket) bool {
		r := s.there(t.ID)
		return r.Stored == store.Running && r.LeaseExpired()
	}
	s.complete.skips(none{}, store.ErrStale, func(c completion) bool { return late(c.Ticket) })
	s.release.skips(none{}, store.ErrStale, late)
}

// refusesWhere completes no record of a state.
func refusesWhere(state store.State) func(*faulty) {
	return func(s *faulty) {
		s.complete.skips(none{}, store.ErrStale, func(c completion) bool { return s.there(c.ID).Stored == state })
	}
}

// settlesAlso settles what cannot be settled, so it says.
func settlesAlso(when func(store.Settlement, store.Record) bool) func(*faulty) {
	return func(s *faulty) {
		s.settle.ends(func(d store.Settlement, got *store.Record, err *error) {
			if r := s.there(d.ID); errors.Is(*err, store.ErrNotSettleable) && when(d, r) {
				*got, *err = r, nil
			}
		})
	}
}

func anyClock(s *faulty) {
	s.claim.asks(func(c *store.Claim) { c.Window = store.Window{} })
	s.settle.asks(func(d *store.Settlement) { d.Window = store.Window{} })
}

// replays finds records with other answers.
func (f *faulty) replays(answers *memory[store.Answer]) {
	f.find.answers(func(id store.ID, r *store.Record) {
		if answer, ok := answers.of(id); ok {
			r.Answer = answer
		}
	})
}

// finds finds other records.
func (f *faulty) finds(records *memory[store.Record]) {
	f.find.ends(func(id store.ID, r *store.Record, err *error) {
		if other, ok := records.of(id); ok {
			*r, *err = other, nil
		}
	})
}

// hides never lists some records.
func (f *faulty) hides(lost *sync.Map) {
	f.list.answers(func(_ store.Query, page *[]store.Record) {
		*page = slices.DeleteFunc(*page, func(r store.Record) bool {
			_, ok := lost.Load(r.ID)
			return ok
		})
	})
}

var stepMutants = []mutant{
	{"starts a step anew", "Step/FirstStartStands", func(s *faulty) { // each start is the first
		s.steps.answers(func(id store.ID, steps *[]store.StepRecord) {
			fence := s.there(id).Fence
			each[store.ID](func(step *store.StepRecord) { step.Fence = fence })(id, steps)
		})
	}},
	{"tells no clock", "Step/FirstStartStands", func(s *faulty) {
		s.steps.answers(each[store.ID](func(step *store.StepRecord) { step.Now = step.StartedAt }))
	}},
	{"tells when it last finished", "Step/Times", func(s *faulty) {
		s.steps.answers(each[store.ID](func(step *store.StepRecord) {
			if step.Finished {
				step.FinishedAt = step.Now
			}
		}))
	}},
	{"takes the last result", "Step/FirstResultStands Stress", func(s *faulty) {
		var last memory[[]byte]
		s.attempts(func(tx *attempt, c store.Claim) {
			tx.seal.answers(func(seal store.Seal, _ *time.Time) {
				if len(seal.Steps) > 0 {
					last.Store(c.ID, seal.Steps[0].Result)
				}
			})
		})
		s.steps.answers(func(id store.ID, steps *[]store.StepRecord) {
			result, ok := last.of(id)
			each[store.ID](func(step *store.StepRecord) {
				if ok && step.Finished {
					step.Result = result
				}
			})(id, steps)
		})
	}},
	{"begins a step of another attempt as its own", "Step/OfAnotherFence", func(s *faulty) {
		s.attempts(func(tx *attempt, c store.Claim) {
			tx.seal.asks(func(seal *store.Seal) {
				found, _ := s.reference.Steps(background, c.ID)
				earlier := each[store.Seal](func(step *store.StepRecord) {
					if i := slices.IndexFunc(found, func(f store.StepRecord) bool { return f.Name == step.Name }); i >= 0 {
						step.Fence = found[i].Fence
					}
				})
				steps := slices.Clone(seal.Steps)
				if seal.Start != nil {
					steps = append(steps, *seal.Start)
				}
				earlier(*seal, &steps)
				seal.Steps = steps[:len(seal.Steps)]
				if seal.Start != nil {
					seal.Start = &steps[len(seal.Steps)]
				}
			})
		})
	}},
	{"forgets derived keys", "Step/DerivedKeys", onSeal(func(seal *store.Seal) {
		for i := range seal.Steps {
			seal.Steps[i].Derived = nil
		}
	})},
	{"writes for stale attempts", "Step/Stale", sealed(func(seal store.Seal, _ *time.Time, err *error) {
		if errors.Is(*err, store.ErrStale) && seal.Answer == nil {
			*err = nil
		}
	})},
	{"wants steps to be in time", "Step/Late", func(s *faulty) {
		s.attempts(func(tx *attempt, c store.Claim) {
			tx.seal.skips(time.Time{}, store.ErrStale, func(store.Seal) bool {
				r := s.there(c.ID)
				return r.Stored == store.Running && r.LeaseExpired()
			})
		})
	}},
	{"lists steps as they came", "Step/InOrder", func(s *faulty) { s.steps.answers(reversed) }},
	{"keeps steps of a free key", "Step/OfAnotherLife Stress", neverForgets},
	{"keeps steps for ever", "Step/Swept", neverForgets},
	{"takes steps regardless", "Step/Cancelled", func(s *faulty) { s.steps.regardless() }},
	{"takes lost for half-done", "List/States", onList(func(q *store.Query) { q.Resumable = q.Resumable || q.HalfDone })},
	{"lists no half-done", "List/States", onList(func(q *store.Query) { q.HalfDone = false })},
	{"counts by the fence", "Step/Attempts", func(s *faulty) {
		s.begin.answers(func(_ store.Claim, got *begun) { got.Record.Attempts = int(got.Record.Fence) })
	}},
}

// sealed tells something else of what it has sealed.
func sealed(change func(seal store.Seal, now *time.Time, err *error)) func(*faulty) {
	return func(s *faulty) { s.attempts(func(tx *attempt, _ store.Claim) { tx.seal.ends(change) }) }
}

// neverForgets keeps a step of a key when the key is freed.
func neverForgets(s *faulty) {
	var kept memory[store.StepRecord]
	s.steps.answers(func(id store.ID, steps *[]store.StepRecord) {
		if len(*steps) > 0 {
			kept.LoadOrStore(id, (*steps)[0])
		}
		if step, ok := kept.of(id); ok {
			*steps = []store.StepRecord{step}
		}
	})
}

var sightMutants = []mutant{
	{"tells the last command", "CommandLog/SameKey", func(s *faulty) {
		s.logCommand.answers(func(c store.LoggedCommand, earlier *store.EarlierCommands) {
			if earlier.Key {
				earlier.First = c.Hash
			}
		})
	}},
	{"sees no other key", "CommandLog/OtherKey", func(s *faulty) {
		s.logCommand.answers(func(_ store.LoggedCommand, earlier *store.EarlierCommands) {
			earlier.Rekeyed, earlier.Earlier = false, store.ID{}
		})
	}},
	{"takes a repeat for a re-key", "CommandLog/Repeats", onLogCommand(func(c *store.LoggedCommand) { c.ID = store.ID{} })},
	{"counts the window from then", "CommandLog/Window", func(s *faulty) {
		s.logCommand.answers(func(_ store.LoggedCommand, earlier *store.EarlierCommands) {
			earlier.Rekeyed = earlier.Rekeyed || earlier.Key
		})
	}},
	{"notes what is refused", "CommandLog/Tentative", onLogCommand(func(c *store.LoggedCommand) { c.Tentative = false })},
	{"remembers for ever", "CommandLog/Kept", onLogCommand(func(c *store.LoggedCommand) { c.Keep = 365 * 24 * time.Hour })},
	{"takes no key for a key", "CommandLog/NoKey", onLogCommand(func(c *store.LoggedCommand) {
		if c.ID == (store.ID{}) {
			c.ID[0] = 1
		}
	})},
	{"mixes principals", "CommandLog/Apart", onLogCommand(func(c *store.LoggedCommand) { c.Scope = store.Scope{} })},
	{"never forgets", "CommandLog/Swept", func(s *faulty) { s.sweep.says(store.Swept{}) }},
	{"sees regardless", "CommandLog/Cancelled", func(s *faulty) { s.logCommand.regardless() }},
}

var countMutants = []mutant{
	{"is ready whatever the context", "Ready/BesideAttempts", func(s *faulty) { s.ready = func(context.Context) error { return nil } }},
	{"is not ready beside an attempt", "Ready/BesideAttempts", func(s *faulty) {
		ready, busy := s.ready, false
		s.claim.asks(func(*store.Claim) { busy = true })
		s.ready = func(ctx context.Context) error {
			if busy {
				return errors.New("busy")
			}
			return ready(ctx)
		}
	}},
	{"counts no operations", "Count/States", func(s *faulty) { s.count.says(nil) }},
	{"counts the unknown only", "Count/States", func(s *faulty) {
		s.count.answers(func(_ store.Query, all *[]store.Count) {
			*all = slices.DeleteFunc(*all, func(c store.Count) bool { return c.HalfDone })
		})
	}},
	{"counts more than the limit", "Count/Limit", onCount(func(q *store.Query) { q.Limit = 1000 })},
	{"counts the newest", "Count/Limit", func(s *faulty) {
		s.count.answers(each[store.Query](func(c *store.Count) { c.Oldest = c.Oldest.Add(time.Hour) }))
	}},
	{"counts all services", "Count/Within", onCount(func(q *store.Query) { q.Within = nil })},
	{"counts the swept only", "Count/Unswept", onCount(func(q *store.Query) { // of those that can be resumed
		q.Resumable = false
	})},
	{"counts every route", "Count/Filters", onCount(func(q *store.Query) { q.Route = "" })},
	{"counts every age", "Count/Ages", func(s *faulty) {
		s.count.answers(each[store.Query](func(c *store.Count) { c.Hour = c.Day }))
	}},
	{"counts a route regardless", "Count/Cancelled", func(s *faulty) { s.count.regardless() }},
	{"counts what has ended", "Open/States", func(s *faulty) {
		var won atomic.Int64
		s.claim.answers(func(_ store.Claim, got *store.Claimed) {
			if got.Won {
				won.Add(1)
			}
		})
		s.countOpen.answers(func(_ question, n *int) { *n = int(won.Load()) })
	}},
	{"counts without a limit", "Open/Limit", func(s *faulty) { s.countOpen.asks(func(q *question) { q.limit = 1000 }) }},
	{"forgets the parked", "Open/States", func(s *faulty) {
		var parked atomic.Int64
		s.park.asks(func(*completion) { parked.Add(1) })
		s.countOpen.answers(func(_ question, n *int) { *n = max(0, *n-int(parked.Load())) })
	}},
	{"counts for all", "Open/Apart", func(s *faulty) {
		scopes := s.everybody()
		s.countOpen.answers(func(q question, n *int) {
			*n = 0
			for _, scope := range *scopes {
				one, _ := s.reference.CountOpen(background, scope, q.limit)
				*n += one
			}
		})
	}},
	{"counts regardless", "Open/Cancelled", func(s *faulty) { s.countOpen.regardless() }},
}

var inspectMutants = []mutant{
	{"shows every route", "List/Filters", onList(func(q *store.Query) { q.Route = "" })},
	{"ends a moment too late", "List/Filters", onList(func(q *store.Query) {
		if !q.Until.IsZero() {
			q.Until = q.Until.Add(time.Second)
		}
	})},
	{"shows every principal", "List/Filters", onList(func(q *store.Query) { q.Scope = store.Scope{} })},
	{"never the newest first", "List/Pages", onList(func(q *store.Query) { q.Newest = false })},
	{"pages by age alone", "List/Pages", onList(func(q *store.Query) { q.After.ID = store.ID{} })},
	{"near in every realm", "Inspect/Near", func(s *faulty) { s.anywhere = "Near" }},
	{"settled in every realm", "Inspect/LastSettled", func(s *faulty) { s.anywhere = "LastSettled" }},
	{"answers of every realm", "Inspect/LastAnswered", func(s *faulty) { s.anywhere = "LastAnswered" }},
	{"opens every realm", "Inspect/OpenSteps", func(s *faulty) { s.anywhere = "OpenSteps" }},
	{"loses what was undone", "Inspect/History", func(s *faulty) {
		s.history.answers(each[store.ID](func(r *store.SettlementRecord) { r.Undone = "" }))
	}},
	{"tells the newest first", "Inspect/History", func(s *faulty) { s.history.answers(reversed) }},
	{"looks after a cancelled", "Inspect/Cancelled", func(s *faulty) { s.history.regardless() }},
	{"counts the flow of every realm", "Inspect/Flow", func(s *faulty) { s.anywhere = "Flow" }},
	{"counts the flow backwards", "Inspect/Flow", func(s *faulty) { s.flow.answers(reversed) }},
	{"knows nothing of settlements", "Inspect/Flow", func(s *faulty) {
		s.flow.answers(each[question](func(h *store.Hour) { h.Settled = 0 }))
	}},
}

var importMutants = []mutant{
	{"leaves free records", "Import/ReplacesFree", func(s *faulty) {
		s.imports.asks(func(records *[]store.Record) {
			*records = slices.DeleteFunc(slices.Clone(*records), func(r store.Record) bool { return s.there(r.ID).ID == r.ID })
		})
	}},
	{"imports with an old fence", "Import/ReplacesFree", func(s *faulty) {
		s.find.answers(func(_ store.ID, r *store.Record) {
			if r.Hash.Version == store.UnknownHash && r.State() != store.Free {
				r.Fence = 1
			}
		})
	}},
	{"imports over what was begun", "Import/NeverOverwrites", func(s *faulty) {
		s.imports.asks(func(records *[]store.Record) {
			for _, r := range *records {
				_ = s.reference.End(background, s.there(r.ID).Ticket, store.Ending{State: store.Free})
			}
		})
	}},
	{"forgets that an attempt runs", "Import/NeverOverwrites", func(s *faulty) {
		s.imports.answers(func(_ []store.Record, done *store.Imported) { done.Running = 0 })
	}},
	{"counts what it has not done", "Import/RoundTrip", func(s *faulty) {
		s.imports.answers(func(records []store.Record, done *store.Imported) { *done = store.Imported{Added: len(records)} })
	}},
	{"imports regardless", "Import/Cancelled", func(s *faulty) { s.imports.regardless() }},
}

var markMutants = []mutant{
	{"marks over what is there", "Mark/LeavesRecords", func(s *faulty) {
		s.mark.asks(func(m *store.Marking) {
			for _, id := range m.IDs {
				_ = s.reference.End(background, s.there(id).Ticket, store.Ending{State: store.Free})
			}
		})
	}},
	{"forgets the service of a mark", "Mark/Lost", func(s *faulty) {
		s.mark.asks(func(m *store.Marking) { m.Realm = store.Realm{} })
	}},
	{"adopts no mark", "Mark/Adopted", func(s *faulty) { s.adopt.asks(func(c *store.Claim) { c.ID[31]++ }) }},
	{"adopts without a realm", "Mark/Adopted", func(s *faulty) { s.adopt.asks(func(c *store.Claim) { c.Realm = store.Realm{} }) }},
	{"marks by any clock", "Mark/Window", func(s *faulty) {
		s.mark.asks(func(m *store.Marking) { m.Window = store.Window{} })
	}},
}

// everybody returns the scopes of those who have claimed.
func (f *faulty) everybody() *[]store.Scope {
	var scopes []store.Scope
	f.claim.asks(func(c *store.Claim) { scopes = append(scopes, c.Scope) })
	return &scopes
}

var scopingMutants = []mutant{
	{"keeps the last scoping", "Scoping/Kept", func(s *faulty) {
		s.keepScoping.answers(func(q question, kept *string) {
			if *kept != "" {
				_ = s.reference.AdoptScoping(background, q.name, q.value)
			}
		})
	}},
	{"keeps any new namespace", "Scoping/Kept", func(s *faulty) { // as that of a new service
		s.keepScoping.answers(func(q question, kept *string) {
			if *kept == "" {
				*kept = q.value
				_ = s.reference.AdoptScoping(background, q.name, q.value)
			}
		})
	}},
	{"adopts nothing", "Scoping/Kept", func(s *faulty) { s.adoptScoping.says(none{}) }},
	{"keeps a scoping too late", "Scoping/Cancelled", func(s *faulty) { s.keepScoping.regardless() }},
}

var keyTimeMutants = []mutant{
	{"judges no key", "KeyTime/Judged", onClaim(func(c *store.Claim) { c.Key.Valid = store.Window{} })},
	{"judges before the record", "KeyTime/RecordFirst", judgesFirst},
	{"judges no freed key", "KeyTime/Freed", func(s *faulty) {
		s.claim.asks(func(c *store.Claim) {
			if s.there(c.ID).Stored == store.Free {
				c.Key.Made = time.Time{}
			}
		})
	}},
	{"judges by any clock", "KeyTime/Clock", onClaim(func(c *store.Claim) { c.Window = store.Window{} })},
	{"has no floor", "KeyTime/Swept", onClaim(func(c *store.Claim) { c.Key.Made = time.Time{} })},
	{"has no floor for the route", "KeyTime/Swept", func(s *faulty) { // that leaves its timed keys
		s.claim.asks(func(c *store.Claim) {
			if !c.Key.Timed && !s.there(c.ID).Spent() {
				c.Key = store.KeyTime{}
			}
		})
	}},
	{"forgets that it was timed", "KeyTime/Dropped", onClaim(func(c *store.Claim) { c.Key.Timed = false })},
	{"has one floor for all", "KeyTime/Dropped", func(s *faulty) { // services
		s.claim.asks(func(c *store.Claim) { c.Realm = store.Realm{} })
	}},
	{"judges what goes on", "KeyTime/Resumed", judgesFirst},
	{"refuses nothing", "KeyTime/RefuseBefore", func(s *faulty) { s.refuseKeysBefore.says(none{}) }},
	{"forgets who has refused", "KeyTime/RefuseBeforeHistory", func(s *faulty) {
		s.refuseKeysBefore.asks(func(q *question) { q.name = "" })
	}},
	{"refuses the moment as well", "KeyTime/RefuseBefore", func(s *faulty) {
		s.refuseKeysBefore.asks(func(q *question) { q.at = q.at.Add(time.Millisecond) })
	}},
	{"keeps the last age", "KeyTime/Ages", func(s *faulty) { // for keys from before it, too
		s.keepAge.answers(func(_ question, kept *store.AgeLimit) { kept.Before = kept.Age })
	}},
	{"refuses by any clock", "KeyTime/RefuseBeforeByAnyClock", func(s *faulty) { s.refuseKeysBefore.asks(byAnyClock) }},
	{"keeps its own clock", "KeyTime/AgesByBothClocks", func(s *faulty) { s.keepAge.asks(byAnyClock) }},
	{"does not see a route leave", "KeyTime/Left", neverLeft},
	{"forgets the service's floor", "KeyTime/LeftBelowFloor", neverLeft},
	{"leaves at each start", "KeyTime/Left", func(s *faulty) { // although the route has left its timed keys before
		s.keepAge.answers(func(q question, kept *store.AgeLimit) {
			if q.age == 0 && !kept.Left.IsZero() {
				_, _ = s.reference.KeepAge(background, q.within, q.value, kept.Age, q.window)
				*kept, _ = s.reference.KeepAge(background, q.within, q.value, 0, q.window)
			}
		})
	}},
	{"refuses after its end", "KeyTime/Cancelled", func(s *faulty) { s.refuseKeysBefore.regardless() }},
}

// judgesFirst does not look for the record of a key that is too old.
func judgesFirst(s *faulty) {
	s.claim = func(ctx context.Context, c store.Claim) (store.Claimed, error) {
		first := c
		first.ID[31]++ // there is none
		got, err := s.reference.Claim(ctx, first)
		if err != nil || got.KeyRefused {
			return got, err
		}
		_ = s.reference.End(ctx, got.Record.Ticket, store.Ending{State: store.Free})
		return s.reference.Claim(ctx, c)
	}
}

// neverLeft does not keep that the keys of a route are not timed any more.
func neverLeft(s *faulty) {
	s.keepAge.skips(store.AgeLimit{}, nil, func(q question) bool { return q.age == 0 })
}

var eraseMutants = []mutant{
	{"erases nothing", "Erase/Tombstones", func(s *faulty) { s.erase.says(store.ErasedPage{}) }},
	{"erases for all", "Erase/OfOthers", func(s *faulty) {
		scopes := s.everybody()
		s.erase.answers(func(q question, page *store.ErasedPage) {
			for _, scope := range *scopes {
				one, _ := s.reference.Erase(background, scope, q.after, q.limit)
				page.Records += one.Records
			}
		})
	}},
	{"frees what it erases", "Erase/NoTombstone", func(s *faulty) {
		var erased atomic.Bool
		s.erase.asks(func(*question) { erased.Store(true) })
		s.claim.answers(func(_ store.Claim, got *store.Claimed) {
			if r := got.Record; erased.Load() && (r.ExpiresAt.Equal(r.Now) || r.State() == store.Expired) {
				got.Won = true
			}
		})
	}},
	{"brings answers back", "Erase/Tombstones", func(s *faulty) { // when they are completed again
		var completed memory[store.Answer]
		s.complete.asks(func(c *completion) {
			if _, again := completed.LoadOrStore(c.Ticket, c.Answer); again {
				completed.Store(c.ID, c.Answer)
			}
		})
		s.replays(&completed)
	}},
	{"keeps the steps", "Erase/Steps", func(s *faulty) { // that it has read
		var read memory[[]store.StepRecord]
		s.steps.answers(func(id store.ID, steps *[]store.StepRecord) {
			if len(*steps) > 0 {
				read.Store(id, *steps)
			} else if kept, ok := read.of(id); ok {
				*steps = kept
			}
		})
	}},
	{"erases the steps of all", "Erase/TakenOver", func(s *faulty) { // of what is open, too
		var erased sync.Map
		s.erase.answers(func(_ question, page *store.ErasedPage) {
			for _, id := range page.Open {
				erased.Store(id, true)
			}
		})
		s.steps.answers(func(id store.ID, steps *[]store.StepRecord) {
			if _, ok := erased.Load(id); ok {
				*steps = nil
			}
		})
	}},
	{"names nothing that is open", "Erase/LeavesOpen", func(s *faulty) {
		s.erase.answers(func(_ question, page *store.ErasedPage) { page.Open = nil })
	}},
	{"counts the erased again", "Erase/Tombstones", func(s *faulty) {
		var erased atomic.Int64
		s.erase.answers(func(_ question, page *store.ErasedPage) { page.Records = int(erased.Add(int64(page.Records))) })
	}},
	{"erases regardless", "Erase/Cancelled", func(s *faulty) { s.erase.regardless() }},
	{"counts what another erased", "Erase/ManyAtOnce", func(s *faulty) { // at the same time
		var calls atomic.Int64
		s.erase.answers(func(_ question, page *store.ErasedPage) {
			if calls.Add(1) == 2 {
				page.Records++
			}
		})
	}},
	{"loses count of what is left", "Erase/InBatches", func(s *faulty) {
		s.erase.answers(func(q question, page *store.ErasedPage) { page.Records = min(page.Records, q.limit) })
	}},
}

var referenceMutants = []mutant{
	{"finds by the name", "Reference/Found", func(s *faulty) {
		s.refer.asks(func(q *question) { q.ref = store.Ref{Name: q.ref.Value, Value: q.ref.Name} })
	}},
	{"finds the oldest first", "Reference/Found", func(s *faulty) {
		s.referred.answers(func(_ store.Query, page *store.ReferredPage) { slices.Reverse(page.IDs) })
	}},
	{"finds by the second alone", "Reference/Two", func(s *faulty) {
		s.referred.asks(func(q *store.Query) { q.Refs = q.Refs[len(q.Refs)-1:] })
	}},
	{"finds by values alone", "Reference/Two", func(s *faulty) {
		s.referred.asks(func(q *store.Query) {
			q.Refs = slices.Clone(q.Refs)
			for i := range q.Refs {
				q.Refs[i].Name = ""
			}
		})
	}},
	{"finds at any time", "Reference/Two", func(s *faulty) {
		s.referred.asks(func(q *store.Query) { q.From, q.Until = time.Time{}, time.Time{} })
	}},
	{"finds in any state", "Reference/Two", func(s *faulty) { s.referred.asks(func(q *store.Query) { q.Completed = false }) }},
	{"ends with the page", "Reference/Found", func(s *faulty) {
		s.referred.answers(func(_ store.Query, page *store.ReferredPage) { page.Next = store.Cursor{} })
	}},
	{"begins each page a moment late", "Reference/Pages", func(s *faulty) {
		s.referred.asks(func(q *store.Query) {
			if q.After != (store.Cursor{}) {
				q.After.CreatedAt = q.After.CreatedAt.Add(-time.Second - time.Millisecond)
			}
		})
	}},
	{"lists by the first alone", "Reference/Listed", onList(func(q *store.Query) { q.Refs = q.Refs[:min(1, len(q.Refs))] })},
	{"finds in every realm", "Reference/Within", func(s *faulty) { s.anywhere = "Referred" }},
	{"ignores one too many", "Reference/Limits", func(s *faulty) { s.refer.forgives(store.ErrReferences) }},
	{"keeps references too long", "Reference/Retention", func(s *faulty) {
		kept := map[store.ID][]store.Ref{}
		s.refer.asks(func(q *question) { kept[q.id] = append(kept[q.id], q.ref) })
		s.references.answers(func(ids []store.ID, refs *map[store.ID][]store.Ref) {
			for _, id := range ids {
				if len((*refs)[id]) == 0 && kept[id] != nil {
					(*refs)[id] = kept[id]
				}
			}
		})
	}},
	{"refers after a cancelled", "Reference/Cancelled", func(s *faulty) { s.references.regardless() }},
}

var noteMutants = []mutant{
	{"keeps the last of two notes", "Note/Appended", func(s *faulty) {
		s.annotate.asks(func(n *store.Note) { n.Token[15] = byte(len(n.Text)) })
	}},
	{"notes what is over", "Note/Open", func(s *faulty) { s.annotate.forgives(store.ErrNotSettleable) }},
	{"keeps notes too long", "Note/Retention Note/Erased", func(s *faulty) {
		s.notes.answers(func(_ []store.ID, notes *map[store.ID][]store.Note) {
			for _, of := range *notes {
				for i := range of {
					of[i].Text = "I am on it"
				}
			}
		})
	}},
	{"forgets who was on it", "Note/Retention", func(s *faulty) {
		s.notes.answers(func(_ []store.ID, notes *map[store.ID][]store.Note) {
			for id, of := range *notes {
				(*notes)[id] = slices.DeleteFunc(of, func(n store.Note) bool { return n.Text == "" })
			}
		})
	}},
	{"notes after a cancelled", "Note/Cancelled", func(s *faulty) { s.notes.regardless() }},
}

var txMutants = []mutant{
	{"shows open rows", "Tx/Visible", func(s *faulty) {
		s.finds(s.openRows())
	}},
	{"keeps the key after a rollback", "Tx/Rollback", neverRollsBack},
	{"keeps rows of a rollback", "Tx/Rollback Stress", keepsRows},
	{"keeps rows of a refusal", "Tx/Undo Stress", onSeal(func(seal *store.Seal) { seal.Alone = false })},
	{"forgets the refusal", "Tx/Undo Stress", func(s *faulty) {
		s.attempts(func(tx *attempt, _ store.Claim) {
			tx.seal.skips(time.Time{}, nil, func(seal store.Seal) bool { return seal.Alone && tx.Rollback() == nil })
		})
	}},
	{"shows others the open row", "Tx/BusyAtOnce", func(s *faulty) {
		open := s.openRows()
		s.claim.answers(func(c store.Claim, got *store.Claimed) {
			if row, ok := open.of(c.ID); ok && got.Busy {
				got.Busy, got.Record = false, row
			}
		})
	}},
	{"knows of no open row", "Tx/InFlight", func(s *faulty) { s.inFlight.says(false) }},
	{"runs Resume from the start", "Tx/ExistingRow Stress", func(s *faulty) {
		s.begin.answers(func(c store.Claim, got *begun) {
			if r := got.Record; c.Recovery == store.Rollback && r.Recovery == store.Resume &&
				r.State() == store.Running && r.LeaseExpired() {
				got.Won, got.tx = true, s.restarted(r.Ticket)
			}
		})
	}},
	{"commits what was rolled back", "Tx/OverOnce", sealed(func(_ store.Seal, _ *time.Time, err *error) { *err = nil })},
	{"ends with the claim's context", "Tx/ClaimContext", endsWithClaim},
	{"settles at once", "Tx/Settlement", func(s *faulty) { s.settle = s.Store.Settle }},
	{"lists no committed attempt", "Tx/EndedByItsHandler", func(s *faulty) { // as if none of Rollback were ever unknown
		s.list.answers(func(_ store.Query, page *[]store.Record) {
			*page = slices.DeleteFunc(*page, func(r store.Record) bool { return r.Recovery == store.Rollback })
		})
	}},
	{"runs a committed attempt again", "Tx/EndedByItsHandler", func(s *faulty) { // as if it were rolled back
		s.claim.answers(func(c store.Claim, got *store.Claimed) {
			if committed(*got) {
				_ = s.reference.End(background, got.Record.Ticket, store.Ending{State: store.Free})
				*got, _ = s.reference.Claim(background, c)
			}
		})
	}},
	{"calls a committed attempt busy", "Tx/EndedByItsHandler", func(s *faulty) { // as if it were under way
		s.begin.answers(func(_ store.Claim, got *begun) {
			if committed(got.Claimed) {
				*got = busy
			}
		})
	}},
}

var busy = begun{Claimed: store.Claimed{Busy: true}}

// committed: the handler of a Rollback attempt has committed its transaction itself.
func committed(got store.Claimed) bool {
	return !got.Won && got.Record.Recovery == store.Rollback && got.Record.Stored == store.Running
}

// openRows remembers the rows of open attempts.
func (f *faulty) openRows() *memory[store.Record] {
	var rows memory[store.Record]
	f.begin.answers(func(c store.Claim, got *begun) {
		if got.tx != nil {
			rows.Store(c.ID, got.Record)
		}
	})
	return &rows
}

// restarted is a transaction of a record that is there.
func (f *faulty) restarted(t store.Ticket) *attempt {
	tx := &referenceTx{store: f.reference}
	return &attempt{
		referenceTx: tx,
		bind: func(ctx context.Context, _ func() error) context.Context {
			return context.WithValue(ctx, txKey{}, tx)
		},
		seal: func(ctx context.Context, s store.Seal) (time.Time, error) {
			return time.Time{}, f.reference.End(ctx, t, store.Ending{State: store.Completed, Answer: *s.Answer})
		},
		rollback: func() error { return f.reference.End(background, t, store.Ending{State: store.Free}) },
	}
}

func neverRollsBack(s *faulty) {
	s.attempts(func(tx *attempt, _ store.Claim) { tx.rollback = func() error { return nil } })
}

func keepsRows(s *faulty) {
	s.attempts(func(tx *attempt, _ store.Claim) {
		tx.rollback = func() error {
			tx.commitRows()
			return tx.referenceTx.Rollback()
		}
	})
}

// endsWithClaim opens its transactions with the context of the claim, as database/sql suggests.
func endsWithClaim(s *faulty) {
	begin := s.begin
	s.begin = func(claimed context.Context, c store.Claim) (begun, error) {
		got, err := begin(claimed, c)
		if tx := got.tx; tx != nil {
			tx.seal = func(ctx context.Context, seal store.Seal) (time.Time, error) {
				if claimed.Err() != nil {
					return time.Time{}, errors.Join(store.ErrAborted, tx.Rollback())
				}
				return tx.referenceTx.Seal(ctx, seal)
			}
		}
		return got, err
	}
}

// segmentMutants are mutants of segments, over a store that has rows.
var segmentMutants = []mutant{
	{"records at the claim", "Segment/Unseen", func(s *faulty) {
		s.attempts(func(tx *attempt, _ store.Claim) { _, _ = tx.Seal(background, store.Seal{}) })
	}},
	{"does not look for the running", "Segment/Unseen", func(s *faulty) { s.inFlight.says(false) }},
	{"never rolls back a segment", "Segment/Rollback", neverRollsBack},
	{"keeps rows of a segment", "Segment/Rollback Stress", keepsRows},
	{"commits rows with each step", "Segment/Together", func(s *faulty) {
		s.attempts(func(tx *attempt, _ store.Claim) {
			tx.step = func(ctx context.Context, work func(context.Context) error) error {
				defer tx.commitRows()
				return tx.referenceTx.Step(ctx, work)
			}
		})
	}},
	{"forgets the start", "Segment/Together", onSeal(func(seal *store.Seal) { seal.Start = nil })},
	{"keeps rows beside a result", "Segment/Alone", onSeal(func(seal *store.Seal) { seal.Alone = false })},
	{"forgets results alone", "Segment/Alone", onSeal(func(seal *store.Seal) {
		if seal.Alone && seal.Answer == nil {
			seal.Steps = nil
		}
	})},
	{"takes the last sealed answer", "Segment/AnswerStands", func(s *faulty) {
		var last memory[store.Answer]
		s.attempts(func(tx *attempt, c store.Claim) {
			tx.seal.asks(func(seal *store.Seal) {
				if seal.Answer != nil {
					last.Store(c.ID, seal.Answer.Answer)
				}
			})
		})
		s.replays(&last)
	}},
	{"refuses an answer sealed again", "Segment/AnswerStands", func(s *faulty) {
		s.attempts(func(tx *attempt, _ store.Claim) {
			answered := false
			tx.seal.skips(time.Time{}, store.ErrStale, func(seal store.Seal) bool {
				before := answered
				answered = answered || seal.Answer != nil
				return before
			})
		})
	}},
	{"records steps without rows", "Segment/Undone", func(s *faulty) {
		s.attempts(func(tx *attempt, _ store.Claim) {
			tx.seal.ends(func(seal store.Seal, now *time.Time, err *error) {
				if errors.Is(*err, store.ErrRetryable) {
					seal.Steps = slices.Clone(seal.Steps)
					each[store.Seal](func(step *store.StepRecord) { step.Kind = store.ProviderStep })(seal, &seal.Steps)
					*now, *err = tx.referenceTx.Seal(background, seal)
				}
			})
		})
	}},
	{"opens without a word", "Segment/Opening", func(s *faulty) {
		s.attempts(func(tx *attempt, _ store.Claim) {
			tx.bind = func(ctx context.Context, _ func() error) context.Context { return tx.referenceTx.Bind(ctx, nil) }
		})
	}},
	{"announces the first segment", "Segment/Opening", func(s *faulty) {
		s.attempts(func(tx *attempt, _ store.Claim) {
			var first func() error
			tx.bind = func(ctx context.Context, fn func() error) context.Context {
				first = fn
				return tx.referenceTx.Bind(ctx, fn)
			}
			tx.step = func(ctx context.Context, work func(context.Context) error) error {
				if first != nil {
					if err := first(); err != nil {
						return err
					}
					first = nil
				}
				return tx.referenceTx.Step(ctx, work)
			}
		})
	}},
	{"takes over with the first seal", "Segment/TakenOver", func(s *faulty) { // and shows the old record
		var found, before memory[store.Record]
		s.begin.asks(func(c *store.Claim) {
			if r := s.there(c.ID); r.ID == c.ID {
				found.Store(c.ID, r)
			}
		})
		s.attempts(func(tx *attempt, c store.Claim) {
			if r, ok := found.of(c.ID); ok {
				before.Store(c.ID, r)
				tx.seal.asks(func(*store.Seal) { before.Delete(c.ID) })
			}
		})
		s.finds(&before)
	}},
	{"takes over an open segment", "Segment/Held", func(s *faulty) { // and ends it
		var open memory[*attempt]
		begin := s.begin
		s.begin.answers(func(c store.Claim, got *begun) {
			if other, ok := open.of(c.ID); ok && got.Busy {
				_ = other.Rollback()
				*got, _ = begin(background, c)
			}
			if got.tx != nil {
				open.Store(c.ID, got.tx)
			}
		})
	}},
	{"holds the key for ever", "Segment/Held", neverRollsBack},
	{"answers for stale attempts", "Segment/Stale", sealed(func(seal store.Seal, _ *time.Time, err *error) {
		if errors.Is(*err, store.ErrStale) && seal.Answer != nil {
			*err = nil
		}
	})},
	{"writes the times of the claim", "Segment/Times", func(s *faulty) {
		var claimed memory[store.Record]
		s.begin.answers(func(c store.Claim, got *begun) {
			if got.tx != nil {
				claimed.LoadOrStore(c.ID, got.Record)
			}
		})
		s.find.answers(func(id store.ID, r *store.Record) {
			if first, ok := claimed.of(id); ok {
				r.CreatedAt, r.Deadline = first.CreatedAt, first.Deadline
			}
		})
	}},
	{"does not renew with a seal", "Segment/Times", func(s *faulty) { // but keeps the first lease
		var first sync.Map
		s.find.answers(func(id store.ID, r *store.Record) {
			lease, _ := first.LoadOrStore(id, r.LeaseUntil)
			r.LeaseUntil = lease.(time.Time)
		})
	}},
	{"seals by any clock", "Segment/Clock", onSeal(func(seal *store.Seal) { seal.Window = store.Window{} })},
	{"ends segments with the claim", "Segment/ClaimContext", endsWithClaim},
	{"makes replays busy", "Segment/HotKey", func(s *faulty) { // judges one claim of a key at a time
		var mu sync.Mutex
		asking := map[store.ID]int{}
		s.begin.skips(busy, nil, func(c store.Claim) bool {
			mu.Lock()
			defer mu.Unlock()
			asking[c.ID]++
			return asking[c.ID] == 2
		})
	}},
	{"asks with the lock", "Segment/QuestionsClaimNothing", func(s *faulty) { // and holds it longer
		var asked memory[bool]
		s.inFlight.asks(func(id *store.ID) { asked.Store(*id, true) })
		s.begin.skips(busy, nil, func(c store.Claim) bool { held, _ := asked.of(c.ID); return held })
	}},
	{"looks before it resumes", "Segment/OneOfManyRuns", func(s *faulty) { // lets one run beside the one that is at work
		begin := s.begin
		s.begin.answers(func(c store.Claim, got *begun) {
			if !got.Won {
				c.ID[31]++
				*got, _ = begin(background, c)
			}
		})
	}},
	{"imports over an open attempt", "Import/AttemptUnderWay", func(s *faulty) {
		s.imports.answers(func(records []store.Record, done *store.Imported) {
			if done.Running == len(records) {
				*done = store.Imported{Added: len(records)}
			}
		})
	}},
}

var proposalMutants = []mutant{
	{"settles with the proposal", "Proposal/Open", func(s *faulty) {
		s.propose.ends(func(p proposed, _ *none, _ *error) {
			_, _ = s.reference.Store.Settle(context.Background(), store.Settlement{ID: p.ID, Fence: p.Fence, Who: p.Who, Why: p.Text})
		})
	}},
	{"two proposals are open", "Proposal/Open Proposal/AtOnce", func(s *faulty) { s.propose.forgives(store.ErrStale) }},
	{"proposes what is over", "Proposal/Refused", func(s *faulty) { s.propose.forgives(store.ErrNotSettleable) }},
	{"proposes by a wrong clock", "Proposal/Refused", func(s *faulty) {
		s.propose.asks(func(p *proposed) { p.window = store.Window{} })
	}},
	{"carries out one's own", "Proposal/CarriedOut", func(s *faulty) {
		s.settle.asks(func(d *store.Settlement) {
			if d.Proposal != ([16]byte{}) {
				d.Who = "another"
			}
		})
	}},
	{"looks at no proposal", "Proposal/CarriedOut Proposal/Withdrawn Proposal/WithdrawnMeanwhile Tx/Proposal", func(s *faulty) {
		s.settle.asks(func(d *store.Settlement) { d.Proposal = [16]byte{} })
	}},
	{"a refused settlement ends the proposal", "Proposal/CarriedOut Tx/ProposalKept", func(s *faulty) {
		s.settle.ends(func(d store.Settlement, _ *store.Record, err *error) {
			if *err != nil {
				n := store.Note{ID: d.ID, Token: [16]byte{0xee}, Fence: d.Fence}
				_ = s.reference.Store.Withdraw(context.Background(), d.Proposal, n)
			}
		})
	}},
	{"takes back what was carried out", "Proposal/CarriedOut", func(s *faulty) { s.withdraw.forgives(store.ErrStale) }},
	{"withdraws nothing", "Proposal/Withdrawn", func(s *faulty) {
		s.withdraw = func(context.Context, proposed) (none, error) { return none{}, nil }
	}},
	{"keeps decisions too long", "Proposal/Retention Proposal/Erased", func(s *faulty) {
		s.notes.answers(func(_ []store.ID, notes *map[store.ID][]store.Note) {
			for _, of := range *notes {
				for i := range of {
					of[i].Decision = []byte("a name")
				}
			}
		})
	}},
	{"proposes after a cancelled", "Proposal/Cancelled", func(s *faulty) { s.propose.regardless() }},
	{"withdraws after a cancelled", "Proposal/Cancelled", func(s *faulty) { s.withdraw.regardless() }},
	{"proposes past the transaction", "Tx/Proposal", func(s *faulty) {
		s.propose = silent(func(ctx context.Context, p proposed) error { return s.reference.Store.Propose(ctx, p.Note, p.window) })
	}},
}
