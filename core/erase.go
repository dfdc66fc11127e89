package core

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Erasure is an operator's order to erase what the store keeps of a principal.
type Erasure struct {
	// Principal is whose records are meant: those of its scope, and no others. Where the client counts
	// ([Scoping].RequireClient), they are the records of one client; a person with two clients needs two erasures.
	Principal Principal
	Who       string // who gives the order; required, for the observer
	Why       string // the reason; required, for the observer
}

// Erased is what an erasure did.
type Erased struct {
	// Records counts the records whose answer, or whose results of steps, were erased.
	Records int
	// Open are the operations of the principal that were running or unknown and were left as they are: the results of their
	// steps are what keeps a provider from being called again. Erase again after they have ended.
	Open []ID
}

// Erase erases the answers and the results of steps of a principal's completed operations. Each of them becomes a tombstone:
// its id, its command hash and its outcome class stay for as long as they would have stayed. So no key becomes free, and a
// repeat gets 409 key_expired, as it would after the end of retention (M-5). Operations that are not completed are left, and
// named in the result.
//
// Erase walks through all records of the store, in batches. Each batch is a transaction of its own, and what it has erased
// stays erased. After an error, Erased says what was done until then; call Erase again, it begins with the first record and
// finds only what is left. Any number of calls may run at once. A record that is made while Erase runs may be missed, and a
// Rollback attempt that is under way cannot be seen: first take the principal's access away, then let the longest
// Policy.Deadline pass.
//
// Records that were made under another [Scoping] are not found. Erase refuses a Scoping that is not the one which the store
// has for the namespace. But after [Module.AdoptScoping] the store has only the new one: erase before that call. Later the
// records of the old Scoping are left, and nothing says so.
//
// The observer gets EventErasing before the first record is erased, and EventErased at the end.
//
// Errors: an Erasure that lacks something; a module without an observer; a store that is no [Eraser]; [ErrScoping]; any
// other error means that the store did not answer, or that ctx has ended.
func (m *Module) Erase(ctx context.Context, e Erasure) (Erased, error) {
	store, ok := m.cfg.Store.(Eraser)
	switch {
	case !ok:
		return Erased{}, fmt.Errorf("idem: Erase: %T cannot erase (core.Eraser); use gormstore", m.cfg.Store)
	case !m.cfg.Scoping.admits(e.Principal):
		return Erased{}, fmt.Errorf("idem: Erase: Principal: nobody can have records as this one: %w",
			m.cfg.Scoping.lacks(e.Principal))
	case !m.Observed():
		return Erased{}, errors.New("idem: Erase: Config.Observer is required: nothing else keeps who erased what, and why")
	case strings.TrimSpace(e.Who) == "":
		return Erased{}, errors.New("idem: Erase: Who is required: who gives the order")
	case strings.TrimSpace(e.Why) == "":
		return Erased{}, errors.New("idem: Erase: Why is required: the reason, for the log")
	}
	if err := m.CheckScoping(ctx); err != nil { // by another scope Erase would find nothing, as if there were nothing
		return Erased{}, err
	}
	event := Event{Kind: EventErasing, Scope: m.cfg.Scoping.PrincipalScope(e.Principal), Who: e.Who, Why: e.Why}
	m.observe(ctx, event)
	erased, err := m.eraseAll(ctx, store, event.Scope)
	event.Kind, event.Count, event.Open, event.Err = EventErased, erased.Records, len(erased.Open), err
	m.observe(ctx, event)
	return erased, err
}

// maxEraseBatch is the greatest number of records that a batch of an erasure looks at. Most of them are not the principal's.
const maxEraseBatch = 5000

// eraseAll works as a sweep does: in batches of about sweepFor, and with as much rest after each.
func (m *Module) eraseAll(ctx context.Context, store Eraser, scope Scope) (erased Erased, err error) {
	batch := 100
	for after := (ID{}); ; {
		begun := time.Now()
		page, err := store.Erase(ctx, scope, after, batch)
		erased.Records += page.Records
		erased.Open = append(erased.Open, page.Open...)
		if err != nil {
			return erased, fmt.Errorf("idem: Erase: it stopped on its way, call it again: %w", err)
		}
		if page.Next == (ID{}) {
			return erased, nil
		}
		after = page.Next
		took := time.Since(begun)
		batch = nextBatch(batch, took, maxEraseBatch)
		rest(ctx, took)
	}
}
