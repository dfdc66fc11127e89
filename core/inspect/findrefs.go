package inspect

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// references is the form that finds operations by one or two references, and a page of what it finds. The pages come with
// POST: what people outside know an operation by is in no address.
type references struct {
	First, Second store.Ref
	State         string
	Filter        filter   // of which it has the times
	Names         []string // to choose from
	Shown         bool     // there are rows of it, or a next page
	After, Next   string   // the place of this page, and of the next one; "": the first one, there is none
	Until         string   // what was looked at goes back to then, where there is more
}

// Text says in words what was looked for.
func (r references) Text() string {
	text := strings.TrimSpace(r.First.Name + " " + r.First.Value)
	if r.Second.Value != "" {
		text += " and " + strings.TrimSpace(r.Second.Name+" "+r.Second.Value)
	}
	return text
}

// Hidden are the fields that a link to another page of it has to send.
func (r references) Hidden() []quote {
	return []quote{{"name", r.First.Name}, {"value", r.First.Value}, {"name2", r.Second.Name}, {"value2", r.Second.Value},
		{"state", r.State}, {"from", r.Filter.From}, {"until", r.Filter.Until}}
}

// findByReferences lists the operations that have one reference, or two, on pages.
func (v *request) findByReferences(form url.Values, page findPage) error {
	get := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	refs := &page.Refs
	refs.First = store.Ref{Name: get("name"), Value: get("value")}
	refs.Second = store.Ref{Name: get("name2"), Value: get("value2")}
	refs.State, refs.After = get("state"), get("after")
	refs.Filter = filter{From: get("from"), Until: get("until")}
	f := refs.Filter
	if needs := refs.State == "unknown" || refs.State == "half_done"; needs {
		f.State = refs.State
	}
	q, wrong, problem := f.parse()
	if f.State == "" {
		q.Unknown, q.HalfDone, q.Completed = false, false, refs.State == "completed"
		if refs.State != "" && !q.Completed {
			wrong, problem = "state", "There is no such state: choose one of the list."
		}
	}
	cursor, ok := parsePlace(refs.After)
	switch {
	case problem != "":
		page.Wrong = wrong
	case !ok:
		problem = "The form has a place in the list that nobody can read. Begin with the first page."
	case refs.First.Value == "":
		problem = "Type the value of a reference."
	}
	if problem != "" {
		return v.foundNothing(http.StatusBadRequest, page, problem)
	}
	q.Refs, q.After, q.Limit = []store.Ref{refs.First}, cursor, pageSize
	if refs.Second.Value != "" {
		q.Refs = append(q.Refs, refs.Second)
	}
	found, err := v.operator.Referred(v.r.Context(), q)
	if problem, refused := errors.AsType[*core.Problem](err); refused {
		return v.foundNothing(http.StatusBadRequest, page, "No operation can have this: "+problem.Detail+".")
	} else if err != nil {
		return err
	}
	if refs.First = found.Refs[0]; len(found.Refs) == 2 {
		refs.Second = found.Refs[1]
	}
	if found.Next != (store.Cursor{}) {
		refs.Next, refs.Until = formatPlace(found.Next), utc(found.Next.CreatedAt)
	}
	switch {
	case len(found.Records) == 0 && refs.Next == "" && refs.After == "":
		return v.foundNothing(http.StatusNotFound, page, "No operation that you may look at has "+refs.Text()+", as far as state "+
			"and times go. References are kept as long as the answer is.")
	case len(found.Records) == 1 && refs.Next == "" && refs.After == "":
		return v.redirect("operations/" + found.Records[0].ID.String())
	}
	refs.Shown, page.More, page.Rows = true, false, v.rowsOf(found.Records)
	return v.show(http.StatusOK, "find", "Found several operations", "find", page)
}
