package inspect

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// proposalPage shows a proposed settlement to those who may carry it out, and has the form that ends it.
type proposalPage struct {
	Record   store.Record
	Mark     mark
	Proposal operations.Proposal
	Word     string // "applied", or "not applied"
	Answer   *answerView
	Own      bool // it is this operator's
	Confirm  string
	Form     settlement
	Refs     []store.Ref
	Problem  string
	Wrong    string // the field that is wrong
}

// isOpen reports whether a note is a proposal that can be carried out.
func isOpen(rec store.Record, n store.Note) bool {
	return n.Kind == store.OpenProposal && n.Fence == rec.Fence && rec.State() == store.Unknown
}

// becameOf says what has become of a proposal.
func becameOf(rec store.Record, n store.Note) string {
	switch {
	case n.Kind == store.CarriedOut:
		return "Another operator has carried it out."
	case n.Kind == store.Withdrawn:
		return "It was withdrawn."
	case isOpen(rec, n):
		return "It waits for another operator, who carries it out or withdraws it. No client hears of it."
	}
	return "Nobody has carried it out before the operation went on, or was settled."
}

// proposed reports whether a form that proposes was recorded, and its answer was lost.
func (v *request) proposed(life operations.Life, form settlement) bool {
	p := life.Proposal
	return form.Act == "propose" && p != nil && strconv.FormatInt(p.Fence, 10) == form.Fence && p.Who == v.operator.Name() &&
		p.Why == form.Why && p.Decision.Undone == form.Undone && p.Decision.Applied == (form.Outcome == "applied") &&
		(!p.Decision.Applied ||
			strconv.Itoa(p.Decision.Answer.Status) == form.Status && string(p.Decision.Answer.Body) == form.Body)
}

func (v *request) proposalForm() error {
	life, ok, err := v.settleable()
	if !ok {
		return err
	}
	return v.showProposal(http.StatusOK, life, settlement{Key: newKey(), Who: v.operator.Name()}, "", "")
}

func (v *request) showProposal(status int, life operations.Life, form settlement, wrong, problem string) error {
	rec, p := life.Record, life.Proposal
	if p == nil {
		page := failure{Status: http.StatusConflict, Heading: "There is no open proposal", Operation: v.Prefix + "operations/" +
			rec.ID.String(), Text: "It was carried out or withdrawn, or the operation went on. " + problem}
		if form.Why != "" {
			page.Quotes = []quote{{"What you wrote; the life of the operation says whether it was kept", form.Why}}
		}
		return v.failAbout(page)
	}
	form.Fence, form.Digest = strconv.FormatInt(p.Fence, 10), p.Digest // what is seen now
	page := proposalPage{Record: rec, Mark: markOf(rec), Proposal: *p, Word: "not applied", Own: p.Who == v.operator.Name(),
		Confirm: confirmation(rec.ID), Form: form, Refs: v.references([]store.ID{rec.ID})[rec.ID], Problem: problem, Wrong: wrong}
	if p.Unread {
		page.Word = "what this instance cannot read"
	} else if a := p.Decision.Answer; a != nil {
		page.Word, page.Answer = "applied", readable(&answerView{Status: a.Status, Text: http.StatusText(a.Status)}, *a)
	}
	title := "Proposal about " + short(rec.ID)
	if problem != "" {
		title = "Nothing was changed: " + title
	}
	return v.show(status, "proposal", title, "operations", page)
}

// endProposal carries a proposal out, or withdraws it, through the guarded command of the API that settles.
func (v *request) endProposal() error {
	if v.r.ParseForm() != nil {
		return v.fail(http.StatusBadRequest, "The form could not be read", "Nothing was changed. Open it again.")
	}
	life, ok, err := v.settleable()
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return v.unsureProposal()
	case !ok:
		return err
	}
	form := readForm(v.r.PostForm)
	fence, err := strconv.ParseInt(form.Fence, 10, 64)
	word := "not applied"
	if life.Proposal != nil && life.Proposal.Decision.Applied {
		word = "applied"
	}
	again := func(status int, wrong, problem string) error {
		return v.showProposal(status, life, form, wrong, problem)
	}
	switch {
	case v.anotherLogin(&form):
		return again(http.StatusConflict, "", "Nothing was changed: the form was opened under another login. You are "+
			form.Who+" now.")
	case life.Proposal != nil && form.Digest != life.Proposal.Digest:
		form.Key = newKey()
		return again(http.StatusConflict, "", "Nothing was changed: this is another proposal than the one that you have seen.")
	case err != nil || form.Key == "" || form.Outcome != "carry_out" && form.Outcome != "withdraw":
		return again(http.StatusBadRequest, "", "The form is not whole. Choose what is to be done.")
	case form.Why == "":
		return again(http.StatusBadRequest, "why", "Say why: what you have seen, and where. It is kept for good.")
	case form.Outcome == "carry_out" && life.Proposal != nil && !confirms(form.Confirm, word, life.Record.ID):
		return again(http.StatusBadRequest, "confirm", "To carry it out, type exactly: "+word+" "+confirmation(life.Record.ID))
	}
	command := map[string]any{"fence": fence, "reason": form.Why, "digest": form.Digest}
	if form.Outcome == "withdraw" {
		command["withdraw"] = true
	}
	body, err := json.Marshal(command)
	if err != nil {
		return err
	}
	out, err := v.command(v.r.Context(), v.settle, life.Record.ID, form.Key, body, operations.Settle)
	switch {
	case err != nil, out.status >= http.StatusInternalServerError:
		return v.unsureProposal()
	case out.status == http.StatusOK:
		return v.redirect("operations/" + life.Record.ID.String())
	}
	if now, err := v.operator.Life(v.r.Context(), life.Record.ID); err == nil {
		life = now
	}
	form.Key = newKey() // a refusal is recorded under the old one
	return again(out.status, "", out.problem())
}

// unsureProposal: reloading sends the form again, with its key.
func (v *request) unsureProposal() error {
	v.w.Header().Set("Retry-After", "2")
	return v.fail(http.StatusServiceUnavailable, "It is not known yet whether it was done",
		"Send the form again as it is: it has a key of its own, and is carried out once.")
}

// confirms reports whether somebody has typed what confirms a decision.
func confirms(typed, word string, id store.ID) bool {
	return strings.EqualFold(strings.Join(strings.Fields(typed), " "), word+" "+confirmation(id))
}
