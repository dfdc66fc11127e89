package inspect

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// pushPage is the form by which a half-done operation is tried again now, or given up.
type pushPage struct {
	Record        store.Record
	Mark          mark
	Ahead         string // what becomes of it if nobody does anything
	Form          settlement
	Retry, GiveUp bool // what the operator may do
	Problem       string
}

// pushes reports whether the pages have something to do with half-done operations for this operator.
func (v *request) pushes() bool { return v.retry.allows(v.principal) || v.giveUp.allows(v.principal) }

func (v *request) pushForm() error {
	return v.showPush(http.StatusOK, settlement{Key: newKey(), Who: v.operator.Name()}, "")
}

func (v *request) showPush(status int, form settlement, problem string) error {
	if !v.pushes() {
		return v.fail(http.StatusForbidden, "You may look, and not push", "To try an operation again or give it up, the login "+
			"needs one of the roles "+strings.Join(slices.Concat(v.retry.roles, v.giveUp.roles), ", ")+". Nothing was changed.")
	}
	id, err := store.ParseID(v.r.PathValue("id"))
	if err != nil {
		return store.ErrNotFound
	}
	life, err := v.operator.Life(v.r.Context(), id)
	if err != nil {
		return err
	}
	rec := life.Record
	if !rec.HalfDone() {
		page := failure{Status: http.StatusConflict, Heading: "It is not half-done",
			Operation: v.Prefix + "operations/" + id.String(), Text: "The operation is " +
				markOf(rec).Word + ". Only one that nobody runs can be tried again, or given up. " + problem}
		if form.Why != "" {
			const wrote = "What you wrote; the history of the operation says whether it was kept: "
			page.Quotes = []quote{{wrote + "why", form.Why}, {wrote + "outcome", form.Outcome}}
		}
		return v.failAbout(page)
	}
	if form.Fence == "" {
		form.Fence = strconv.FormatInt(rec.Fence, 10)
	}
	title := "Push " + short(id)
	if problem != "" {
		title = "Nothing was changed: " + title
	}
	return v.show(status, "push", title, "operations", pushPage{Record: rec, Mark: markOf(rec),
		Ahead: ahead(rec, v.ops.Outlook(rec)), Form: form, Problem: problem,
		Retry: v.retry.allows(v.principal), GiveUp: v.giveUp.allows(v.principal)})
}

// push sends the form through the guarded command of the API.
func (v *request) push() error {
	id, err := store.ParseID(v.r.PathValue("id"))
	if err != nil {
		return store.ErrNotFound
	}
	if v.r.ParseForm() != nil {
		return v.fail(http.StatusBadRequest, "The form could not be read", "Nothing was changed. Open it again.")
	}
	form := readForm(v.r.PostForm)
	route, what := v.retry, operations.Retry
	if form.Outcome == "give_up" {
		route, what = v.giveUp, operations.GiveUp
	}
	fence, err := strconv.ParseInt(form.Fence, 10, 64)
	switch {
	case v.anotherLogin(&form):
		return v.showPush(http.StatusConflict, form, "Nothing was changed: the form was opened under another login.")
	case err != nil || form.Key == "" || form.Outcome != "give_up" && form.Outcome != "retry":
		form.Fence = ""
		return v.showPush(http.StatusBadRequest, form, "The form is not whole. Choose what is to be done.")
	case form.Why == "":
		return v.showPush(http.StatusBadRequest, form, "Say why. It is kept for good.")
	case !route.allows(v.principal):
		return v.showPush(http.StatusForbidden, form, "Your login has no role for this. Nothing was changed.")
	}
	body, err := json.Marshal(map[string]any{"fence": fence, "reason": form.Why})
	if err != nil {
		return err
	}
	out, err := v.command(v.r.Context(), route, id, form.Key, body, what)
	switch {
	case err != nil, out.status >= http.StatusInternalServerError:
		v.w.Header().Set("Retry-After", "2")
		return v.fail(http.StatusServiceUnavailable, "It is not known yet whether it was done",
			"Send the form again as it is: it has a key of its own, and is carried out once.")
	case out.status == http.StatusOK, out.status == http.StatusAccepted:
		return v.redirect("operations/" + id.String())
	}
	return v.showPush(out.status, form, out.problem())
}
