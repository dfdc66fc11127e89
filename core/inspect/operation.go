package inspect

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// shownBody is how much of an answer's body a page shows, in bytes.
const shownBody = 64 << 10

// operationPage is what the page of an operation shows.
type operationPage struct {
	Record     store.Record
	Mark       mark
	Age        time.Duration
	Meaning    string
	HalfDone   bool
	Timeline   []moment
	Answer     *answerView // nil: there is none
	Revealed   bool        // the answer and the results of the steps are shown
	HasResults bool        // there is something to reveal
	Settleable bool        // by its state, and now
	Proposed   bool        // a settlement is proposed, and open
	From       time.Time   // when it can be settled; zero where it cannot
	Trace      string      // the id of its trace, "" without one
	Calls      *callKeys   // nil: its recovery undoes rows, and calls nobody
	Refs       []store.Ref
	Of         string    // the link to what else of its caller needs somebody
	Note       *noteForm // nil: it is over
	Repeat     *repeat   // nil: this instance has seen none
	Ends       []store.AttemptEnd
}

// answerView is a recorded answer.
type answerView struct {
	Status  int
	Text    string // the name of the status
	Media   string
	Size    int
	Partial bool
	Sealed  string // why headers and body cannot be read; "": they can
	Gone    bool   // only the status is kept

	Header []quote // where revealed
	Body   string
	Base64 bool // the body is no text
	Cut    bool // there is more of it
}

// operation shows the life of an operation, and masks what its caller was answered.
func (v *request) operation() error { return v.showOperation((*operations.Operator).Life, false) }

// answer shows the same with the answer. It is asked for with POST, because it leaves a trace: somebody has read it.
func (v *request) answer() error { return v.showOperation((*operations.Operator).Reveal, true) }

func (v *request) showOperation(
	read func(*operations.Operator, context.Context, store.ID) (operations.Life, error), revealed bool,
) error {
	id, err := store.ParseID(v.r.PathValue("id"))
	if err != nil {
		return store.ErrNotFound
	}
	life, err := read(v.operator, v.r.Context(), id)
	if err != nil {
		return err
	}
	rec := life.Record
	page := operationPage{Record: rec, Mark: markOf(rec), HalfDone: rec.HalfDone(), Age: rec.Now.Sub(rec.CreatedAt),
		Meaning:  meaning(rec, v.ops.Outlook(rec)),
		Timeline: timeline(life), Revealed: revealed, Answer: viewOf(life)}
	page.Refs, page.Of = v.references([]store.ID{id})[id], v.callers(rec)
	page.Note, page.Repeat = noteFormOf(rec), v.Numbers.repeatsOf(id)
	page.Ends = endsOf(rec)
	page.HasResults = page.Answer != nil && !page.Answer.Gone || rec.State() != store.Expired &&
		slices.ContainsFunc(life.Steps, func(s store.StepRecord) bool { return s.Finished })
	if rec.State() == store.Unknown {
		page.From = settleableFrom(rec)
		page.Settleable, page.Proposed = !rec.Now.Before(page.From), life.Proposal != nil
	}
	if len(rec.Traceparent) >= 35 {
		page.Trace = rec.Traceparent[3:35]
	}
	status, title := http.StatusOK, "Operation "+short(id)
	if rec.Recovery != store.Rollback {
		calls := callKeysOf(life, v.r.URL.Query())
		if page.Calls = &calls; calls.Problem != "" {
			status, title = http.StatusBadRequest, "Wrong name: "+title
		}
	}
	return v.show(status, "operation", title, "operations", page)
}

// endsOf are how its attempts have ended, and of one whose lease has run out, that it is gone. The record says so only when
// somebody takes it over, or settles it.
func endsOf(rec store.Record) []store.AttemptEnd {
	if rec.LeaseExpired() {
		if ends := rec.EndsBefore(); ends != nil {
			rec.Ends = ends
		}
	}
	return rec.AttemptEnds()
}

// viewOf is the answer of an operation, nil if it has none.
func viewOf(life operations.Life) *answerView {
	rec := life.Record
	if state := rec.State(); state != store.Completed && state != store.Expired {
		return nil
	}
	a := &answerView{Status: rec.Answer.Status, Text: http.StatusText(rec.Answer.Status), Media: life.Media, Size: life.Size,
		Partial: rec.Answer.Partial, Gone: rec.State() == store.Expired, Sealed: unread(rec.Unread())}
	if a.Gone {
		return a // also where no sweep came by yet
	}
	return readable(a, rec.Answer)
}

// readable fills in headers and body of an answer, as people can read them.
func readable(a *answerView, from store.Answer) *answerView {
	for name, values := range from.Header {
		for _, value := range values {
			a.Header = append(a.Header, quote{name, value})
		}
	}
	slices.SortFunc(a.Header, func(x, y quote) int { return cmp.Compare(x.Name, y.Name) })
	body := from.Body
	if a.Cut = len(body) > shownBody; a.Cut {
		body = wholeCharacters(body[:shownBody])
	}
	if a.Base64 = !utf8.Valid(body); a.Base64 {
		a.Body = base64.StdEncoding.EncodeToString(body)
	} else {
		a.Body = string(body)
	}
	return a
}

// wholeCharacters returns a text without the beginning of a character at its end.
func wholeCharacters(text []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return text[:len(text)-n]
			}
			break
		}
	}
	return text
}
