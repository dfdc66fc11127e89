package inspect

import (
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// findPage is the form that finds an operation. It never shows a key again, and no address has what was typed: logs and
// histories would keep it.
type findPage struct {
	ID      string // or another text that an operation is known by
	Call    string
	Owner   core.Principal
	Filter  filter
	Routes  []string
	Rows    []row
	More    bool // there are more than the rows
	Refs    references
	Problem string
	Form    string // whose problem it is: "text", "references", "caller" or "key"
	Wrong   string // the field of the form that is wrong
}

func (v *request) newFind() findPage {
	return findPage{Owner: v.neighbour(), Routes: v.routes(""), Refs: references{Names: v.operator.ReferenceNames()}}
}

func (v *request) findForm() error {
	return v.show(http.StatusOK, "find", "Find an operation", "find", v.newFind())
}

// neighbour is a principal beside the operator: most of the clients have its issuer and its tenant.
func (v *request) neighbour() core.Principal {
	return core.Principal{Issuer: v.principal.Issuer, Tenant: v.principal.Tenant}
}

// find looks an operation up by what somebody has of it.
func (v *request) find() error {
	if v.r.ParseForm() != nil {
		return v.fail(http.StatusBadRequest, "The form could not be read", "Send it again.")
	}
	form, page := v.r.PostForm, v.newFind()
	if tooLong(form) {
		page.Form = "text"
		return v.foundNothing(http.StatusBadRequest, page, fieldTooLong)
	}
	switch {
	case form.Has("key"):
		page.Form, page.Wrong = "key", "subject"
		return v.findByKey(form, page)
	case form.Has("subject"):
		page.Form, page.Wrong = "caller", "subject"
		return v.findByCaller(form, page)
	case form.Has("value"):
		page.Form, page.Wrong = "references", "value"
		return v.findByReferences(form, page)
	}
	page.Form, page.Wrong = "text", "id"
	return v.findByText(form, page)
}

// foundNothing shows the form again, with what is wrong.
func (v *request) foundNothing(status int, page findPage, problem string) error {
	page.Problem = problem
	title := "Not found: find an operation"
	if status == http.StatusBadRequest {
		title = "Wrong input: find an operation"
	}
	return v.show(status, "find", title, "find", page)
}

// findByText takes the text for whatever it can be, and says what it was taken for.
func (v *request) findByText(form url.Values, page findPage) error {
	page.ID, page.Call = strings.TrimSpace(form.Get("id")), strings.TrimSpace(form.Get("call"))
	if page.ID == "" {
		return v.foundNothing(http.StatusBadRequest, page, "Type what you have of the operation.")
	}
	found, err := v.operator.Find(v.r.Context(), page.ID, page.Call)
	problem, refused := errors.AsType[*core.Problem](err)
	switch {
	case refused:
		page.Wrong = "call"
		return v.foundNothing(http.StatusBadRequest, page, "No call can have this name: "+problem.Detail+".")
	case err != nil:
		return err
	case len(found.As) == 0:
		return v.foundNothing(http.StatusBadRequest, page, "This can be nothing that an operation is known by: it is too long, "+
			"or it has characters that cannot be printed.")
	}
	records, err := v.operator.Records(v.r.Context(), found.IDs)
	switch {
	case err != nil:
		return err
	case len(records) == 0:
		return v.foundNothing(http.StatusNotFound, page, understood(found))
	case len(records) == 1:
		return v.redirect("operations/" + records[0].ID.String())
	}
	page.More = len(found.IDs) >= pageSize
	if page.More && found.Referred {
		return v.findByReferences(url.Values{"value": {page.ID}}, page)
	}
	page.Rows = v.rowsOf(records)
	return v.show(http.StatusOK, "find", "Found several operations", "find", page)
}

// understood says what a text was taken for, where nothing was found.
func understood(f operations.Finding) string {
	text := "This was taken for " + strings.Join(f.As, ", for ") + ". No operation that you may look at has it."
	if !f.Compared {
		return text
	}
	if len(f.Calls) == 0 {
		text += " No name of a call is known here, so only the steps of open operations were compared: type the name that the " +
			"code gives the call."
	} else {
		text += " Compared were the steps of open operations, and the calls named " + strings.Join(f.Calls, ", ") + "."
	}
	if !f.Whole {
		text += " There are more open operations than are compared at a time."
	}
	return text
}

// findByCaller leads to the list of a caller's operations. Where there are none it says for whom it has looked: the list
// knows only a hash.
func (v *request) findByCaller(form url.Values, page findPage) error {
	page.Owner, page.Filter = ownerOf(form), filterOf(form)
	page.Filter.Caller = ""
	scope, err := v.operator.Caller(page.Owner)
	if problem, refused := errors.AsType[*core.Problem](err); refused {
		return v.foundNothing(http.StatusBadRequest, page, "No operation can have such a caller: "+problem.Detail+".")
	}
	q, wrong, problem := page.Filter.parse()
	if problem != "" {
		page.Wrong = wrong
		return v.foundNothing(http.StatusBadRequest, page, problem)
	}
	q.Scope, q.Limit = scope, 1
	found, err := v.operator.List(v.r.Context(), q)
	switch {
	case err != nil:
		return err
	case len(found) == 0 && v.noRoute(q):
		page.Wrong = "route"
		return v.foundNothing(http.StatusNotFound, page, "This release has no route "+page.Filter.Route+
			", and no operation of an earlier one needs somebody.")
	case len(found) == 0:
		return v.foundNothing(http.StatusNotFound, page, "This was taken for the caller "+page.Owner.Name()+". "+
			"No operation of it that you may look at needs somebody, as far as state, route and times go. One that is completed "+
			"is found by what you have of it, or by its key and its caller.")
	}
	page.Filter.Caller = hex.EncodeToString(scope[:])
	return v.redirect("operations?" + page.Filter.query().Encode())
}

func ownerOf(form url.Values) core.Principal {
	get := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	return core.Principal{Issuer: get("issuer"), Tenant: get("tenant"), Client: get("client"), Subject: get("subject")}
}

// findByKey finds by the client's key and its principal. The key comes in the body and goes nowhere else (K-6).
func (v *request) findByKey(form url.Values, page findPage) error {
	page.Owner = ownerOf(form)
	again := func(status int, problem string) error { return v.foundNothing(status, page, problem) }
	if !page.Owner.Valid() {
		return again(http.StatusBadRequest, "Issuer and subject are required: the same key of another principal is another "+
			"operation.")
	}
	id, running, err := v.operator.FindKey(v.r.Context(), page.Owner, form.Get("key"))
	problem, refused := errors.AsType[*core.Problem](err)
	switch {
	case refused && problem.Code == core.CodeBadRequest:
		return again(http.StatusBadRequest, "No operation can have such a caller: "+problem.Detail+".")
	case refused:
		page.Wrong = "key"
		return again(http.StatusBadRequest, "The key is not valid: "+problem.Detail+".")
	case errors.Is(err, store.ErrNotFound):
		return again(http.StatusNotFound, "This principal has no operation with this key that you may look at. A request with it "+
			"may still be on its way.")
	case err != nil:
		return err
	case running:
		return again(http.StatusOK, "The attempt of operation "+id.String()+" is running, and nothing of it can be seen before "+
			"it commits. Look again in a moment.")
	}
	return v.redirect("operations/" + id.String())
}
