package inspect

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// settlePage is the form of a settlement.
type settlePage struct {
	Record   store.Record
	Mark     mark
	Confirm  string // the end of the operation's id, to be typed
	Finished []string
	Form     settlement
	Example  *example // of the route; nil if there is none
	Refs     []store.Ref
	Problem  string
	Wrong    string // the field that is wrong
	Unsure   bool   // nobody knows yet whether the settlement was recorded
	Two      bool   // it can only be proposed
}

// settlement is what an operator has filled in.
type settlement struct {
	Key     string // of the command: the same in each sending of one form
	Fence   string // that the operator has seen
	Who     string // for whom the form was opened
	Outcome string // "applied" or "not_applied"
	Why     string
	Undone  string
	Status  string
	Headers string // one on each line
	Body    string
	Confirm string
	Act     string         // "propose": it is not settled
	Digest  string         // of the proposal that was read
	Before  string         // of keys that are refused
	IDs     string         // that are marked
	Owner   core.Principal // who is erased
	Sent    string         // the hash of the command that an earlier sending of this form, whose outcome is not known, has sent
}

// confirmLength is how much of an id is typed.
const confirmLength = 8

// settleForm shows the form for an operation that can be settled.
func (v *request) settleForm() error {
	life, ok, err := v.settleable()
	if !ok {
		return err
	}
	if life.Proposal != nil {
		return v.redirect("operations/" + life.Record.ID.String() + "/proposal")
	}
	form := settlement{Key: newKey(), Who: v.operator.Name(), Fence: strconv.FormatInt(life.Record.Fence, 10), Status: "201"}
	return v.showSettle(http.StatusOK, life, form, "", "", false)
}

// newKey is the key of a form. It is made once, so that a form that is sent twice settles once.
// It is of the form that every route takes, one with timed keys included.
func newKey() string { return intents.NewKey() }

// settleable reads the operation of the address. Where there is nothing to settle, it says so, and ok is false.
func (v *request) settleable() (life operations.Life, ok bool, err error) {
	if v.settle.pattern == "" {
		return life, false, v.fail(http.StatusForbidden, "These pages only read",
			"This service does not let operators settle here. Use its API.")
	}
	if !v.settles() {
		return life, false, v.fail(http.StatusForbidden, "You may look, and not settle",
			"To settle, the login needs one of the roles "+strings.Join(v.settle.roles, ", ")+". Nothing was settled.")
	}
	id, err := store.ParseID(v.r.PathValue("id"))
	if err != nil {
		return life, false, store.ErrNotFound
	}
	life, err = v.operator.Life(v.r.Context(), id)
	return life, err == nil, err
}

// settles reports whether the operator has a role of the route that settles.
func (v *request) settles() bool {
	return v.settle.allows(v.principal)
}

func (v *request) showSettle(status int, life operations.Life, form settlement, wrong, problem string, unsure bool) error {
	rec := life.Record
	page := settlePage{Record: rec, Mark: markOf(rec), Confirm: confirmation(rec.ID), Form: form, Problem: problem,
		Wrong: wrong, Unsure: unsure, Two: v.ops.TakesTwo(rec)}
	for _, s := range life.Steps {
		if s.Finished {
			page.Finished = append(page.Finished, s.Name)
		}
	}
	switch from := settleableFrom(rec); {
	case unsure || problem != "" && rec.State() == store.Unknown:
	case rec.State() != store.Unknown:
		var typed *settlement
		if problem != "" { // it was sent
			typed = &form
		}
		return v.settledBy(life, typed, "There is nothing to settle",
			"The operation is "+page.Mark.Word+": only an unknown one can be settled, once.")
	case rec.Now.Before(from):
		return v.fail(http.StatusConflict, "It is too early to settle it", "Its handler may be at work until "+utc(from)+".")
	}
	page.Refs = v.references([]store.ID{rec.ID})[rec.ID]
	last, err := v.operator.LastAnswered(v.r.Context(), rec.Method, rec.Route)
	if err == nil && last.Unread() == store.Readable {
		page.Example = exampleOf(last.Answer, last.Scope == rec.Scope)
	} else if err != nil && !errors.Is(err, store.ErrNotFound) {
		v.operator.Failed(v.r.Context(), err) // the form is of use without it
	}
	title := "Settle " + short(rec.ID)
	if page.Two {
		title = "Propose to settle " + short(rec.ID)
	}
	if problem != "" {
		title = "Not settled: " + title
	}
	return v.show(status, "settle", title, "operations", page)
}

// settledBy says who has settled an operation, how and when, and what this operator has typed, so that it is not lost.
func (v *request) settledBy(life operations.Life, form *settlement, title, text string) error {
	page := failure{Status: http.StatusConflict, Heading: title, Text: text, Operation: v.Prefix + "operations/" +
		life.Record.ID.String()}
	var seen int64 // the settlement is one that the form did not know of
	if form != nil {
		seen, _ = strconv.ParseInt(form.Fence, 10, 64)
	}
	if n := len(life.History); n > 0 && life.History[n-1].BeforeFence >= seen {
		last := life.History[n-1]
		page.Quotes = []quote{{"Settled as", settledMark(last).Word}, {"Who", last.Who}, {"When", utc(last.At)}, {"Why", last.Why}}
	}
	if form != nil { // what this operator has typed is theirs
		for _, q := range []quote{{"why", form.Why}, {"outcome", form.Outcome}, {"undone", form.Undone}, {"status", form.Status},
			{"headers", form.Headers}, {"body", form.Body}} {
			if q.Text != "" {
				page.Quotes = append(page.Quotes, quote{"What you wrote, which was not kept: " + q.Name, q.Text})
			}
		}
	}
	return v.failAbout(page)
}

func confirmation(id store.ID) string {
	text := id.String()
	return text[len(text)-confirmLength:]
}

// settleIt sends the settlement through the guarded command of the API.
func (v *request) settleIt() error {
	if v.r.ParseForm() != nil {
		return v.fail(http.StatusBadRequest, "The form could not be read",
			"It is larger than a settlement can be, or it broke off. Nothing was settled.")
	}
	life, ok, err := v.settleable()
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		v.w.Header().Set("Retry-After", "2")
		return v.fail(http.StatusServiceUnavailable, "The store does not answer",
			"This sending settled nothing; whether an earlier one of the same form did, nobody knows yet. Reload the page in a "+
				"moment: the browser sends the form again as it is, and it settles once.")
	case !ok:
		return err
	}
	id, form := life.Record.ID, readForm(v.r.PostForm)
	if v.anotherLogin(&form) {
		return v.showSettle(http.StatusConflict, life, form, "", "Nothing was settled by this sending: the form was opened under "+
			"another login. You are "+form.Who+" now. If it is you who decides, confirm it and send it.", false)
	}
	body, wrong, problem := form.command(id)
	if problem != "" {
		return v.showSettle(http.StatusBadRequest, life, form, wrong, problem, false)
	}
	sent := fmt.Sprintf("%x", sha256.Sum256(body))
	edited := form.Sent != "" && form.Sent != sent // what is recorded may be what it said before
	if form.Sent == "" {
		form.Sent = sent
	}
	out, err := v.command(v.r.Context(), v.settle, id, form.Key, body, operations.Settle)
	switch {
	case err != nil:
		return v.showSettle(http.StatusServiceUnavailable, life, form, "", "The settlement broke off.", true)
	case out.status == http.StatusOK, out.status == http.StatusAccepted:
		return v.redirect("operations/" + id.String())
	}
	now, err := v.operator.Life(v.r.Context(), id)
	if err != nil { // the form stays, with its key: it is all that can find out what became of the settlement
		return v.showSettle(http.StatusServiceUnavailable, life, form, "", "The store does not answer.", true)
	}
	life = now
	// Any other refusal is certain to have recorded nothing, whatever its status.
	unsure := out.header.Get(wire.HeaderResult) == wire.ResultUnknown || out.header.Get("Retry-After") != ""
	if !edited && (v.settled(life, form) || v.proposed(life, form)) {
		return v.redirect("operations/" + id.String()) // it was recorded after all
	}
	if !unsure {
		form.Key, form.Sent = newKey(), "" // a refusal is recorded under the old one
	}
	if life.Record.State() != store.Unknown || !unsure && strconv.FormatInt(life.Record.Fence, 10) != form.Fence {
		return v.settledBy(life, &form, "It was not settled by this form",
			"Meanwhile the operation was settled, answered or tried again. Look at it anew before you decide.")
	}
	return v.showSettle(out.status, life, form, "", out.problem(), unsure)
}

// settled reports whether the history has what the form says: an earlier sending was recorded, and its answer was lost.
func (v *request) settled(life operations.Life, form settlement) bool {
	return form.Act != "propose" && slices.ContainsFunc(life.History, func(s store.SettlementRecord) bool {
		return strconv.FormatInt(s.BeforeFence, 10) == form.Fence && s.Who == v.operator.Name() && s.Why == form.Why &&
			s.Undone == form.Undone && (s.AfterState == store.Completed) == (form.Outcome == "applied")
	})
}

// command returns the body of the API's settlement. The problem is in plain words; then nothing is sent. wrong is its field.
func (f settlement) command(id store.ID) (body []byte, wrong, problem string) {
	fence, err := strconv.ParseInt(f.Fence, 10, 64)
	applied := f.Outcome == "applied"
	word := "not applied"
	if applied {
		word = "applied"
	}
	switch {
	case err != nil || fence < 1 || f.Key == "":
		return nil, "", "The form is not whole. Open it again."
	case !applied && f.Outcome != "not_applied":
		return nil, "outcome", "Choose what is true: the command took effect, or it did not."
	case f.Why == "":
		return nil, "why", "Say why: what you have seen, and where. It is kept for good."
	case applied && f.Undone != "":
		return nil, "undone", "What was undone belongs to a command that was not applied. Leave it empty."
	case !confirms(f.Confirm, word, id):
		return nil, "confirm", "To confirm, type exactly: " + word + " " + confirmation(id)
	}
	if applied && f.Body == "" && (f.Status != "" && f.Status != "201" || f.Headers != "") {
		return nil, "body", "An answer with headers, or with another status than 201, needs a body. Without a body, repeats get " +
			"201 and the operation's id."
	}
	command := map[string]any{"outcome": f.Outcome, "reason": f.Why, "fence": fence}
	if f.Undone != "" {
		command["undone"] = f.Undone
	}
	if f.Act == "propose" {
		command["propose"] = true
	}
	if applied && f.Body != "" {
		status, err := strconv.Atoi(f.Status)
		if err != nil || status < 200 || status > 499 {
			return nil, "status", "The status of the answer is a number from 200 to 499."
		}
		if !json.Valid([]byte(f.Body)) {
			return nil, "body", "The answer is no valid JSON. Leave it empty for one that names the operation."
		}
		headers, ok := f.headers()
		if !ok {
			return nil, "headers", "A header is a name, a colon and a value, each on its own line and once."
		}
		command["answer"] = map[string]any{"status": status, "headers": headers, "body": json.RawMessage(f.Body)}
	}
	body, err = json.Marshal(command)
	if err != nil {
		return nil, "", "The form holds text that cannot be kept."
	}
	return body, "", ""
}

// headers reads the lines of headers.
func (f settlement) headers() (map[string]string, bool) {
	headers := map[string]string{}
	for line := range strings.Lines(f.Headers) {
		name, value, found := strings.Cut(strings.TrimSpace(line), ":")
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		if _, twice := headers[name]; !found || name == "" || twice {
			return nil, false
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, true
}

// problem is the detail of the problem that the API would have answered.
func (a *answered) problem() string {
	var p struct{ Detail string }
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	if strings.HasSuffix(media, "json") && json.Unmarshal(a.body.Bytes(), &p) == nil && p.Detail != "" {
		return p.Detail
	}
	return "The settlement was refused with status " + strconv.Itoa(a.status) + "."
}
