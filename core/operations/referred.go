package operations

import (
	"context"
	"fmt"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/text"
	"github.com/auth19/idem/core/store"
)

// Referred is what was found by references.
type Referred struct {
	Records []core.Record
	// Next is where the next page begins; zero: there is none. A page may have fewer records than were asked for, or none,
	// and a next page: the search stops after some thousands of references. Ask for it with Refs, whose order may differ.
	Next store.Cursor
	Refs []store.Ref
}

// Referred finds operations of the operator's realm by one or two references: see [core.Reference]. They are those that
// have a reference like each of q.Refs, in any state, or as q.Completed, q.Unknown and q.HalfDone say; the last ones
// come first. From and Until are about when the first reference was attached, or, for operations that need somebody,
// about when they were claimed. The error is a *[core.Problem] (CodeBadRequest) if no reference can be such; any other
// means that the store did not answer.
func (o *Operator) Referred(ctx context.Context, q store.Query) (r Referred, err error) {
	for _, ref := range q.Refs {
		named := ref.Name == "" || text.Typed(ref.Name, store.MaxReferenceName)
		if !named || !text.Typed(ref.Value, store.MaxReferenceValue) {
			return r, core.NewProblem(core.CodeBadRequest, fmt.Sprintf("a reference has a value of 1 to %d bytes, and a name of "+
				"at most %d, both plain text", store.MaxReferenceValue, store.MaxReferenceName))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*o.ops.cfg.ClaimTimeout)
	defer cancel()
	q.Within, q.Newest, r.Refs = o.within(), true, q.Refs
	if q.Unknown || q.HalfDone { // there are few of these, however many have the references
		wanted := q.Limit
		q.Limit++
		if r.Records, err = o.ops.store.List(ctx, q); len(r.Records) > wanted {
			r.Records = r.Records[:wanted]
			r.Next = r.Records[wanted-1].Cursor()
		}
		return r, err
	}
	page, err := o.ops.store.Referred(ctx, q)
	more := page.Next != (store.Cursor{})
	if err == nil && more && len(page.IDs) < q.Limit && len(q.Refs) == 2 && q.After == (store.Cursor{}) {
		// The first one is on many operations that do not have the second. The second may be rarer.
		other := q
		other.Refs = []store.Ref{q.Refs[1], q.Refs[0]}
		var turned store.ReferredPage
		if turned, err = o.ops.store.Referred(ctx, other); turned.Next == (store.Cursor{}) || len(turned.IDs) == q.Limit {
			page, r.Refs = turned, other.Refs
		}
	}
	if err != nil {
		return r, err
	}
	r.Next = page.Next
	r.Records, err = o.Records(ctx, page.IDs)
	return r, err
}

// ReferenceNames are the names of references that this process has seen, sorted.
func (o *Operator) ReferenceNames() []string { return o.ops.in.References.All() }
