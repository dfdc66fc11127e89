package operations

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/names"
	"github.com/auth19/idem/core/internal/text"
	"github.com/auth19/idem/core/store"
)

// Finding is what was found by a text.
type Finding struct {
	IDs []core.ID
	// As is what the text was taken for, in words: what it is, if something was found; otherwise everything that was tried.
	As []string
	// Compared: the text may be a provider's key, and was compared with the keys of open operations. Calls are the names of
	// calls whose keys these were, besides those of steps.
	Compared bool
	Calls    []string
	// Referred: it was found by a reference. There may be more: see [Operator.Referred].
	Referred bool
	// Whole: all open operations were compared. It is false if there are more than are compared at a time, or in its time.
	Whole bool
}

// maxCompared is how many open operations are compared with a provider's key at a time; maxFound is how many operations are
// found at a time.
const maxCompared, maxFound = 20_000, 50

// isUUID is the form of a provider's key that is a UUID.
var isUUID = regexp.MustCompile("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

// minShort is how many digits the beginning of an id needs.
const minShort = 8

// Find finds operations of the operator's realm by what a person has of them: the id, or at least 8 digits of its
// beginning, and also the short form of lists ("01234567…89abcdef"); a reference (see [core.Reference]); the key by which a
// provider knows a call, as 64 digits or as a UUID. Such a key is computed for each call of an open operation. The names of
// its steps are known; call is the name of another call, "" for the names that this process has seen so far.
//
// The error is a *[core.Problem] (CodeBadRequest) if no call can have that name: it is above 255 bytes, or no text. If
// ctx is cancelled, the search ends.
func (o *Operator) Find(ctx context.Context, what, call string) (f Finding, err error) {
	if len(call) > names.MaxLength || !text.Storable(call) {
		return f, core.NewProblem(core.CodeBadRequest,
			fmt.Sprintf("the name of a call is text of at most %d bytes", names.MaxLength))
	}
	ctx, cancel := context.WithTimeout(ctx, 2*o.ops.cfg.ClaimTimeout)
	defer cancel()
	what, f.Whole = strings.TrimSpace(what), true
	key := strings.ToLower(what)
	id, idErr := core.ParseID(what)
	near, isShort := parseShort(key)
	ways := []struct {
		as    string
		suits bool
		look  func() ([]core.ID, error)
	}{
		{"the id of an operation", idErr == nil, func() ([]core.ID, error) { return o.findID(ctx, id) }},
		{"the beginning of an id", isShort,
			func() ([]core.ID, error) { return o.ops.store.Near(ctx, o.within(), near, maxFound) }},
		{"a provider's key of an open operation", idErr == nil || isUUID.MatchString(key),
			func() ([]core.ID, error) { return o.findCall(ctx, key, call, &f) }},
		{"a reference", text.Typed(what, store.MaxReferenceValue), func() ([]core.ID, error) {
			page, err := o.ops.store.Referred(ctx, store.Query{Within: o.within(), Limit: maxFound,
				Refs: []store.Ref{{Value: what}}})
			f.Referred = true
			return page.IDs, err
		}},
	}
	for _, way := range ways {
		if !way.suits {
			continue
		}
		if f.IDs, err = way.look(); err != nil {
			return Finding{}, err
		}
		if len(f.IDs) > 0 {
			f.As = []string{way.as}
			return f, nil
		}
		f.As = append(f.As, way.as)
	}
	return f, nil
}

// within is the beginning of the realms that the operator may look at.
func (o *Operator) within() []byte { return o.ops.operated(o.principal) }

// viewer is the operator as one who asks for an operation.
func (o *Operator) viewer() store.Viewer { return o.ops.viewer(o.principal) }

func (o *Operator) findID(ctx context.Context, id core.ID) ([]core.ID, error) {
	rec, err := o.ops.findLive(ctx, id, o.viewer())
	switch {
	case errors.Is(err, core.ErrNotFound), err == nil && !o.ops.operates(o.principal, rec):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []core.ID{id}, nil
}

// findCall computes the keys of the calls of open operations, and compares.
func (o *Operator) findCall(ctx context.Context, key, call string, f *Finding) (ids []core.ID, err error) {
	f.Compared, f.Calls = true, []string{call}
	if call == "" {
		f.Calls = o.ops.in.Calls.All()
	}
	steps, err := o.ops.store.OpenSteps(ctx, o.within(), maxCompared)
	if err != nil {
		return nil, err
	}
	write := core.DerivedKey.String
	if isUUID.MatchString(key) {
		write = core.DerivedKey.UUID
	}
	is := func(k core.DerivedKey) bool { return write(k) == key }
	compared := map[core.ID]bool{}
	for _, s := range steps {
		if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) { // what was compared until then is of use
			f.Whole = false
			return slices.Compact(ids), nil
		} else if err != nil {
			return nil, err
		}
		compared[s.ID] = true
		made := slices.ContainsFunc(f.Calls, func(name string) bool {
			return is(s.ID.DeriveCall(name)) || is(s.ID.DeriveStep(name)) ||
				s.Step != "" && is(s.ID.DeriveStep(s.Step).DeriveCall(name))
		})
		if made || s.Step != "" && is(s.ID.DeriveStep(s.Step)) {
			ids = append(ids, s.ID)
		}
	}
	f.Whole = len(compared) < maxCompared
	return slices.Compact(ids), nil // a key is that of one operation
}

// Records returns those of the operations that the operator may look at, in the order of the ids.
func (o *Operator) Records(ctx context.Context, ids []core.ID) (records []core.Record, err error) {
	for _, id := range ids {
		ctx, cancel := o.ops.brief(ctx)
		rec, err := o.ops.findLive(ctx, id, o.viewer())
		cancel()
		switch {
		case err == nil && o.ops.operates(o.principal, rec):
			records = append(records, rec)
		case err != nil && !errors.Is(err, core.ErrNotFound):
			return nil, err
		}
	}
	return records, nil
}

// Failed tells the observer that a page could not be shown.
func (o *Operator) Failed(ctx context.Context, err error) {
	o.ops.in.Observe(ctx, core.Event{Kind: core.EventFailed, Who: o.Name(), Err: err})
}

// References returns the references of operations that one of the other methods has returned.
func (o *Operator) References(ctx context.Context, ids ...core.ID) (map[core.ID][]store.Ref, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := o.ops.brief(ctx)
	defer cancel()
	refs, err := o.ops.store.References(ctx, ids)
	for _, of := range refs {
		for _, ref := range of {
			o.ops.in.References.Note(ref.Name)
		}
	}
	return refs, err
}

// Caller returns the scope of a principal, by which the list can be filtered: see [store.Query]. The error is a
// *[core.Problem] (CodeBadRequest) if no operation can have such a caller.
func (o *Operator) Caller(p core.Principal) (store.Scope, error) {
	if err := o.ops.in.Lacks(p); err != nil {
		return store.Scope{}, core.NewProblem(core.CodeBadRequest, strings.TrimPrefix(err.Error(), "idem: "))
	}
	return o.ops.cfg.Scoping.PrincipalScope(p), nil
}

// parseShort reads the beginning of an id, with or without an end: "0123456789", "01234567…89abcdef".
func parseShort(text string) (n store.Near, ok bool) {
	begin, end, cut := strings.Cut(strings.ReplaceAll(text, "...", "…"), "…")
	digits := len(n.First) * 2
	if len(begin) < minShort || len(begin)+len(end) >= digits || len(end)%2 != 0 || cut && end == "" {
		return n, false
	}
	var err error
	if n.End, err = hex.DecodeString(end); err != nil {
		return n, false
	}
	if n.First, err = core.ParseID(begin + strings.Repeat("0", digits-len(begin))); err != nil {
		return n, false
	}
	n.Last, err = core.ParseID(begin + strings.Repeat("f", digits-len(begin)))
	return n, err == nil
}
