package inspect

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// callKeys is the form that computes what a provider knows a call by. The keys come from the operation's id and the name of
// the call (store.DerivedKey). Nothing of the client's key is needed for them, and nothing of it is in them.
type callKeys struct {
	Steps   []string // the provider steps that the record knows; a call may have been made inside of one
	Name    string
	Inside  string // one of Steps; "": inside none
	Keys    []quote
	Problem string
}

// callKeysOf reads the form out of an address. Without a name there are no keys yet. A name is taken as it is: with another
// spelling the keys would be others, and the provider would seem to know nothing.
func callKeysOf(life operations.Life, form url.Values) callKeys {
	c := callKeys{Name: form.Get("call"), Inside: form.Get("inside")}
	for _, s := range life.Steps {
		if s.Kind == store.ProviderStep {
			c.Steps = append(c.Steps, s.Name)
		}
	}
	id := life.Record.ID
	switch {
	case !form.Has("call"):
	case c.Name == "" || !utf8.ValidString(c.Name) || strings.ContainsRune(c.Name, 0):
		c.Problem = "Type the name that the code gives the call."
	case c.Name != strings.TrimSpace(c.Name):
		c.Problem = "The name begins or ends with a space. Type it as the code has it."
	case c.Inside == "":
		c.Keys = bothForms("Key of the call", id.DeriveCall(c.Name))
		if life.Record.Recovery == store.Resume {
			c.Keys = append(c.Keys, bothForms("Key, if it is the name of a step", id.DeriveStep(c.Name))...)
		}
	case !slices.Contains(c.Steps, c.Inside):
		c.Problem = "The operation has no such step that calls a provider. Choose one of the list."
	default:
		c.Keys = bothForms("Key of the call inside the step", id.DeriveStep(c.Inside).DeriveCall(c.Name))
	}
	return c
}

// bothForms are the forms in which handlers send a key.
func bothForms(name string, key store.DerivedKey) []quote {
	return []quote{{name, key.String()}, {"the same as a UUID", key.UUID()}}
}
