package operations

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/text"
	"github.com/auth19/idem/core/store"
)

// maxNote is how long a note may be, in bytes.
const maxNote = 2 << 10

// Note writes a note on an open operation, "I am on it" say, with the operator's name. It changes nothing of the operation,
// and cannot be taken back. form is a key of the form that it comes from: the same one again adds nothing. The text goes
// with the answer, and by [Operations.Erase].
//
// Errors: ErrNotFound; store.ErrNotSettleable if the operation is not open; a *[core.Problem] (CodeBadRequest) if the
// text cannot be kept. Any other error means that the store did not answer.
func (o *Operator) Note(ctx context.Context, id core.ID, form, what string) error {
	what = strings.TrimSpace(what)
	if what == "" || len(what) > maxNote || !text.Storable(what) {
		return core.NewProblem(core.CodeBadRequest, fmt.Sprintf("a note is text of 1 to %d bytes", maxNote))
	}
	ctx, cancel := o.ops.brief(ctx)
	defer cancel()
	rec, err := o.ops.findLive(ctx, id, o.viewer())
	if err == nil && !o.ops.operates(o.principal, rec) {
		err = core.ErrNotFound
	}
	if err != nil {
		return err
	}
	token := sha256.Sum256([]byte(form))
	return o.ops.store.Annotate(ctx, store.Note{ID: id, Token: [16]byte(token[:16]), Who: o.Name(), Text: what})
}

// Notes returns the notes on operations that one of the other methods has returned, those of each oldest first.
func (o *Operator) Notes(ctx context.Context, ids ...core.ID) (map[core.ID][]store.Note, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := o.ops.brief(ctx)
	defer cancel()
	return o.ops.store.Notes(ctx, ids)
}
