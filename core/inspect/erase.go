package inspect

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// erasePage is the form that erases a principal, or what it has done.
type erasePage struct {
	serviceForm
	Done *erasure // nil: the form is shown
}

// erasure is the answer of the API. It is recorded, and does not say whose it is: the page takes that from its own form.
type erasure struct {
	Records int
	Open    []store.ID
	AgainAt time.Time `json:"again_at"`
	Detail  string
}

func (v *request) eraseForm() error {
	return v.showErase(http.StatusOK, serviceForm{settlement: settlement{Owner: v.neighbour()}}, nil)
}

func (v *request) showErase(status int, form serviceForm, done *erasure) error {
	switch {
	case v.erase.pattern == "":
		return v.fail(http.StatusForbidden, "These pages only read",
			"This service does not let operators erase here. Use its API.")
	case !v.erase.allows(v.principal):
		return v.fail(http.StatusForbidden, "You may not do this", "To erase, the login needs one of the roles "+
			strings.Join(v.erase.roles, ", ")+". Nothing was erased.")
	}
	if form.Key == "" {
		form.Key, form.Who = newKey(), v.operator.Name()
	}
	title := "Erase a person"
	if form.Problem != "" {
		form.Key = newKey() // a refusal may be recorded under the old one, and to erase twice does no harm
		title = "Nothing was erased: " + title
	}
	return v.show(status, "erase", title, "erase", erasePage{form, done})
}

// erasePrincipal sends the form through the guarded command of the API.
func (v *request) erasePrincipal() error {
	form, ok, err := v.sentForm()
	if !ok {
		return err
	}
	if form.Problem == "" && !strings.EqualFold(form.Confirm, "erase") {
		form.Problem = "To confirm, type exactly: erase"
	}
	body, err := json.Marshal(map[string]any{"reason": form.Why, "principal": map[string]string{"issuer": form.Owner.Issuer,
		"tenant": form.Owner.Tenant, "client": form.Owner.Client, "subject": form.Owner.Subject}})
	if err != nil {
		form.Problem = "The form holds text that cannot be kept."
	}
	return v.sendForm(v.erase, form, body, operations.Erase, func(status int, form serviceForm, out *answered) error {
		if out == nil {
			return v.showErase(status, form, nil)
		}
		var done erasure
		if err := json.Unmarshal(out.body.Bytes(), &done); err != nil {
			return err
		}
		return v.showErase(status, form, &done)
	})
}
