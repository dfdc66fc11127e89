package inspect

import (
	"errors"
	"net/http"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// noteForm is the form by which an operator writes a note.
type noteForm struct {
	Key   string
	Fence int64 // of the record that was seen; only for the page of a session that has ended
}

// noteFormOf is nil where the operation is not open.
func noteFormOf(rec store.Record) *noteForm {
	if rec.Stored != store.Running && rec.Stored != store.Unknown {
		return nil
	}
	return &noteForm{Key: newKey(), Fence: rec.Fence}
}

// notesOn returns the notes on operations. Where the store does not answer for them, a page is shown without them.
func (v *request) notesOn(ids []store.ID) map[store.ID][]store.Note {
	notes, err := v.operator.Notes(v.r.Context(), ids...)
	if err != nil {
		v.operator.Failed(v.r.Context(), err)
	}
	return notes
}

// noteMoments are the notes as moments in the life of an operation.
func noteMoments(rec store.Record, notes []store.Note) (moments []moment) {
	for _, n := range notes {
		m, name := moment{At: n.At, Title: "A note", Quotes: []quote{{"Who", n.Who}}}, "Note"
		switch n.Kind {
		case store.PlainNote:
		case store.WithdrawalNote:
			m.Title, m.Class, name = "The proposal was withdrawn", "off", "Why"
		default:
			m.Title, m.Class, name = "A settlement was proposed", "done", "Why"
			m.Lines = []string{becameOf(rec, n)}
		}
		if n.Text == "" || rec.State() == store.Expired { // also where no sweep came by yet
			m.Lines = append(m.Lines, "Its text is no longer kept.")
		} else {
			m.Quotes = append(m.Quotes, quote{name, n.Text})
		}
		moments = append(moments, m)
	}
	return moments
}

// note writes a note. It is sent with POST from this site alone, and a form that is sent twice writes one note.
func (v *request) note() error {
	id, err := store.ParseID(v.r.PathValue("id"))
	if err != nil {
		return store.ErrNotFound
	}
	if v.r.ParseForm() != nil || v.r.PostForm.Get("key") == "" {
		return v.fail(http.StatusBadRequest, "The form could not be read", "No note was written. Open the operation again.")
	}
	err = v.operator.Note(v.r.Context(), id, v.r.PostForm.Get("key"), v.r.PostForm.Get("why"))
	problem, refused := errors.AsType[*core.Problem](err)
	page := failure{Heading: "No note was written", Operation: v.Prefix + "operations/" + id.String()}
	if text := v.r.PostForm.Get("why"); text != "" {
		page.Quotes = []quote{{"What you wrote", text}}
	}
	switch {
	case refused:
		page.Status, page.Text = http.StatusBadRequest, "It cannot be kept: "+problem.Detail+"."
		return v.failAbout(page)
	case errors.Is(err, store.ErrNotSettleable):
		page.Status, page.Text = http.StatusConflict, "The operation is over. Only one that is open takes notes."
		return v.failAbout(page)
	case err != nil:
		return err
	}
	return v.redirect("operations/" + id.String())
}
