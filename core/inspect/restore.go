package inspect

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// restorePage has the forms of supervisors for what a restore, or a failover, has lost: keys are refused, and operations
// that a provider knows are marked.
type restorePage struct {
	operations.Refusals
	Keys, Marks serviceForm
	Done        string // what a form has done
}

// serviceForm is one of these forms.
type serviceForm struct {
	Allowed bool   // by the roles of its route
	Roles   string // that its route needs, where it is not
	settlement
	Problem string
}

// restore shows both forms.
func (v *request) restore() error { return v.showRestore(http.StatusOK, restorePage{}) }

func (v *request) showRestore(status int, page restorePage) error {
	refusals, err := v.operator.Refusals(v.r.Context())
	if err != nil {
		return err
	}
	page.Refusals = refusals
	for form, route := range map[*serviceForm]commandRoute{&page.Keys: v.refuse, &page.Marks: v.mark} {
		form.Allowed, form.Roles = route.allows(v.principal), strings.Join(route.roles, ", ")
		if form.Key == "" {
			form.Key, form.Who = newKey(), v.operator.Name()
		}
	}
	if page.Keys.Before == "" {
		page.Keys.Before = refusals.Latest.UTC().Format(time.RFC3339)
	}
	title := "After a restore"
	if page.Keys.Problem+page.Marks.Problem != "" {
		title = "Nothing was changed: " + title
	}
	return v.show(status, "restore", title, "restore", page)
}

// restores reports whether the pages have one of the forms for this operator. Without it they say who has.
func (v *request) restores() bool {
	return v.operator.Supervises() && (v.refuse.allows(v.principal) || v.mark.allows(v.principal))
}

// mayRestore lets through who has one of the forms. Otherwise there is a page that says what is missing.
func (v *request) mayRestore(serve func(v *request) error) error {
	switch {
	case v.refuse.pattern == "" && v.mark.pattern == "":
		return v.fail(http.StatusForbidden, "These pages only read",
			"This service does not let supervisors refuse keys or mark operations here. Use its API.")
	case !v.restores():
		return v.fail(http.StatusForbidden, "You may not do this", "To refuse keys, or to mark operations, the login needs a "+
			"role of a supervisor, and one of the roles "+strings.Join(append(v.refuse.roles, v.mark.roles...), ", ")+
			". Nothing was changed.")
	}
	return serve(v)
}

// refuseKeys sends the form through the guarded command of the API.
func (v *request) refuseKeys() error {
	form, ok, err := v.sentForm()
	if !ok {
		return err
	}
	before, err := time.Parse(time.RFC3339, form.Before)
	switch {
	case form.Problem != "":
	case err != nil:
		form.Problem = "The time is none of RFC 3339, such as 2026-11-28T22:05:00Z."
	case !strings.EqualFold(form.Confirm, "refuse"):
		form.Problem = "To confirm, type exactly: refuse"
	}
	body, err := json.Marshal(map[string]any{"before": before, "reason": form.Why})
	if err != nil {
		form.Problem = "The form holds text that cannot be kept."
	}
	return v.sendForm(v.refuse, form, body, operations.RefuseKeys, func(status int, form serviceForm, out *answered) error {
		page := restorePage{Keys: form}
		if out != nil {
			page.Keys = serviceForm{}
			page.Done = "Keys made before " + utc(before) + " are refused from now on."
		}
		return v.showRestore(status, page)
	})
}

// markLost likewise.
func (v *request) markLost() error {
	form, ok, err := v.sentForm()
	if !ok {
		return err
	}
	body, err := json.Marshal(map[string]any{"ids": strings.Fields(form.IDs), "reason": form.Why})
	if err != nil {
		form.Problem = "The form holds text that cannot be kept."
	}
	return v.sendForm(v.mark, form, body, operations.Mark, func(status int, form serviceForm, out *answered) error {
		page := restorePage{Marks: form}
		if out != nil {
			var done struct{ Marked, Left, Running int }
			_ = json.Unmarshal(out.body.Bytes(), &done) // the API's own
			page.Marks = serviceForm{}
			page.Done = "Marked: " + operationsText(done.Marked) + ". Left alone, because they have a record: " +
				thousands(done.Left) + "; because an attempt has not ended: " + thousands(done.Running) + "."
		}
		return v.showRestore(status, page)
	})
}

// sentForm reads one of these forms. If it cannot be sent as it is, its Problem says why.
func (v *request) sentForm() (form serviceForm, ok bool, err error) {
	if v.r.ParseForm() != nil {
		return form, false, v.fail(http.StatusBadRequest, "The form could not be read", "Nothing was changed. Open it again.")
	}
	form.settlement = readForm(v.r.PostForm)
	switch {
	case v.anotherLogin(&form.settlement):
		form.Problem = "Nothing was changed: the form was opened under another login. You are " + form.Who + " now."
	case form.Key == "":
		form.Key, form.Problem = newKey(), "The form is not whole. Look at it, and send it again."
	case form.Why == "":
		form.Problem = "Say why. It is kept for good."
	}
	return form, true, nil
}

// sendForm sends a form that is whole, and shows what has become of it: show gives the form back, or, with the answer, tells
// what was done.
func (v *request) sendForm(route commandRoute, form serviceForm, body []byte, what operations.Handler,
	show func(status int, form serviceForm, out *answered) error) error {
	switch {
	case !route.allows(v.principal):
		return v.fail(http.StatusForbidden, "You may not do this", "For it the login needs one of the roles "+
			strings.Join(route.roles, ", ")+". Nothing was changed.")
	case form.Problem != "":
		return show(http.StatusBadRequest, form, nil)
	}
	out, err := v.command(v.r.Context(), route, store.ID{}, form.Key, body, what)
	switch {
	case err != nil, out.status >= http.StatusInternalServerError:
		v.w.Header().Set("Retry-After", "2")
		return v.fail(http.StatusServiceUnavailable, "It is not known yet whether it was done",
			"Send the form again as it is: it has a key of its own, and is carried out once.")
	case out.status == http.StatusOK:
		return show(http.StatusOK, form, out)
	}
	form.Problem = out.problem()
	return show(out.status, form, nil)
}
