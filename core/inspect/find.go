package inspect

import (
	"errors"
	"net/http"
	"strings"

	"github.com/auth19/idem/core"
)

// findPage is the form that finds an operation. It never shows a key again.
type findPage struct {
	ID      string
	Owner   core.Principal
	Problem string
	ByKey   bool // the problem is that of the second form
}

func (v *visit) findForm() error {
	return v.show(http.StatusOK, "find", "Find an operation", "find", findPage{Owner: v.neighbour()})
}

// neighbour is a principal beside the operator: most of the clients have its issuer and its tenant.
func (v *visit) neighbour() core.Principal {
	return core.Principal{Issuer: v.principal.Issuer, Tenant: v.principal.Tenant}
}

// find looks an operation up by its id, or by key and principal. The key comes in the body and goes nowhere else: not into
// an address, where logs and histories would keep it (K-6).
func (v *visit) find() error {
	if v.r.ParseForm() != nil {
		return v.fail(http.StatusBadRequest, "The form could not be read", "Send it again.")
	}
	form := v.r.PostForm
	page := findPage{ID: strings.TrimSpace(form.Get("id")), Owner: v.neighbour()}
	again := func(status int, problem string) error {
		page.Problem = problem
		return v.show(status, "find", "Find an operation", "find", page)
	}
	if !form.Has("key") {
		id, err := core.ParseID(page.ID)
		if err != nil {
			return again(http.StatusBadRequest, "An operation's id has 64 hexadecimal digits. A problem has it as operation, and "+
				"the log too.")
		}
		if _, err = v.operator.Life(v.r.Context(), id); errors.Is(err, core.ErrNotFound) {
			return again(http.StatusNotFound, "There is no operation with this id that you may look at.")
		} else if err != nil {
			return err
		}
		return v.redirect("operations/" + id.String())
	}
	page.ByKey = true
	page.Owner = core.Principal{
		Issuer: strings.TrimSpace(form.Get("issuer")), Tenant: strings.TrimSpace(form.Get("tenant")),
		Client: strings.TrimSpace(form.Get("client")), Subject: strings.TrimSpace(form.Get("subject")),
	}
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
		return again(http.StatusBadRequest, "The key is not valid: "+problem.Detail+".")
	case errors.Is(err, core.ErrNotFound):
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
