package operations

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/text"
	"github.com/auth19/idem/core/store"
)

// Proposal is a settlement that an operator has proposed. Nothing of the operation has changed: its repeats are told
// outcome_unknown, and only operators hear of it.
type Proposal struct {
	Who      string // the name of the principal that has proposed it
	Why      string
	At       time.Time     // by the store's clock
	Fence    int64         // of the attempt that it is about
	Decision core.Decision // Applied, Answer and Undone
	Digest   string        // SHA-256 in hex, of its name and Decision. Who carries it out says by it which one they have read
	// Unread: this instance cannot read Decision. The proposal can be withdrawn, by the digest of its own name.
	Unread bool

	token [16]byte
}

// notSettleable is a refusal of a settlement, in words for the operator. It is a store.ErrNotSettleable.
type notSettleable string

func (e notSettleable) Error() string      { return "idem: not settleable: " + string(e) }
func (notSettleable) Is(target error) bool { return target == store.ErrNotSettleable }

const (
	errHalfDone notSettleable = "the operation is half-done: let it be tried again, or give it up, and " +
		"settle it then"
	errTakesTwo notSettleable = "settlements of this route take two (TwoToSettle): propose it, and another operator carries " +
		"it out, with the digest of the proposal"
	errNoProposal  notSettleable = "there is no open proposal about this attempt: read the operation again"
	errOwnProposal notSettleable = "the same principal has proposed it: another one has to carry it out"
	errOtherDigest notSettleable = "the digest is not that of the proposal: read the operation again, nothing was settled"
	errProposed    notSettleable = "there is a proposal about this attempt already: carry it out, or withdraw it"
	errUnread      notSettleable = "this instance cannot read the proposal: it can be withdrawn, or carried out where it " +
		"can be read"
	errNoProposals notSettleable = "this store keeps no proposals (store.Proposals)"
)

// TakesTwo reports whether a settlement of an operation has to be proposed by one principal and carried out by another:
// Policy.TwoToSettle of its route. Of a route that this release does not know, that of a marked operation for instance, it
// does where any route does.
func (m *Operations) TakesTwo(rec core.Record) bool {
	policy, known := m.in.PolicyOf(rec.Method, rec.Route)
	return policy.TwoToSettle ||
		!known && slices.ContainsFunc(m.in.Policies(), func(p core.Policy) bool { return p.TwoToSettle })
}

// Propose proposes a settlement of by, whatever Policy.TwoToSettle says. Nothing is settled until another principal
// carries it out with [Operations.CarryOut]; until then it can be withdrawn with [Operations.Withdraw]. d.Fence is required,
// and d.Who is the name of by: leave it out. If ctx is that of a Rollback attempt on the same store, it commits with the
// attempt.
//
// Errors: those of Settle; store.ErrNotSettleable also if there is an open proposal about this attempt. Why and
// Undone have at most 16 KiB each; Answer is whole (not Partial), and its headers are text.
func (m *Operations) Propose(ctx context.Context, id core.ID, by core.Principal, d core.Decision) (Proposal, error) {
	_, p, err := m.propose(ctx, id, by, d, m.service)
	if err != nil {
		return Proposal{}, err
	}
	return *p, nil
}

func (m *Operations) propose(ctx context.Context, id core.ID, by core.Principal, d core.Decision, within []byte) (
	core.Record, *Proposal, error,
) {
	fail := func(err error) (core.Record, *Proposal, error) { return core.Record{}, nil, err }
	second := Second{By: by, Fence: d.Fence}
	if err := second.check("Propose"); err != nil {
		return fail(err)
	}
	if d.Who != "" && d.Who != by.Name() {
		return fail(errors.New("idem: Propose: Who is the name of the principal; leave it out"))
	}
	d.Who = by.Name()
	if err := d.Check("Propose"); err != nil {
		return fail(err)
	}
	if d.Answer != nil && d.Answer.Partial {
		return fail(errors.New("idem: Propose: Answer.Partial: propose the whole answer; repeats get its body"))
	}
	if max(len(d.Why), len(d.Undone)) > maxReason {
		return fail(fmt.Errorf("idem: Propose: Why and Undone have at most %d bytes", maxReason))
	}
	rec, open, err := m.proposedAbout(ctx, id, d.Fence, within)
	switch {
	case err != nil:
		return fail(err)
	case open != nil:
		return fail(errProposed)
	}
	if err := m.in.MayBeUndone(ctx, rec, d); err != nil {
		return fail(err)
	}
	p := &Proposal{Who: d.Who, Why: d.Why, At: rec.Now, Fence: rec.Fence,
		Decision: core.Decision{Applied: d.Applied, Undone: d.Undone}}
	if d.Answer != nil {
		answer := *d.Answer
		answer.Header = m.in.Recorded(answer.Header)
		p.Decision.Answer = &answer
	}
	kept, err := encode(p.Decision)
	if err != nil {
		return fail(err)
	}
	n := store.Note{ID: id, Who: p.Who, Text: p.Why, Fence: p.Fence, Decision: kept}
	_, _ = rand.Read(n.Token[:]) // never fails since Go 1.24
	p.Digest = digestOf(n)
	storeCtx, cancel := m.brief(ctx)
	defer cancel()
	err = m.store.(store.Proposals).Propose(storeCtx, n, m.in.Window()) // proposedAbout has refused any other store
	m.in.TellClock(ctx, err)
	if err != nil {
		return fail(err)
	}
	m.in.Observe(ctx, p.event(core.EventProposed, rec, p.Who, p.Why))
	return rec, p, nil
}

// Second is what somebody says who ends a proposal of another principal, or of their own. All of it is required.
type Second struct {
	By     core.Principal // who does it: issuer, tenant and subject are kept for good
	Why    string         // the reason; kept for good
	Fence  int64          // of the attempt that the proposal is about
	Digest string         // of the proposal that they have read: see [Proposal]
}

// check says what is missing for who ends a proposal, or makes one.
func (s *Second) check(verb string) error {
	var why string
	switch {
	case !s.By.Valid():
		why = "the principal that decides is required"
	case s.Fence < 1:
		why = "Fence is required: that of the attempt that the decision is about"
	case verb == "Propose":
		return nil
	case strings.TrimSpace(s.Why) == "":
		why = "Why is required: the reason, for the history"
	case !text.Storable(s.Why):
		why = "Why is kept as text: valid UTF-8, no NUL"
	case s.Digest == "":
		why = "Digest is required: that of the proposal"
	default:
		return nil
	}
	return errors.New("idem: " + verb + ": " + why)
}

// CarryOut settles as another principal has proposed. The errors are those of Settle; store.ErrNotSettleable also if there
// is no proposal of another principal with this digest.
func (m *Operations) CarryOut(ctx context.Context, id core.ID, s Second) (core.Record, error) {
	return m.carryOut(ctx, id, s, m.service)
}

func (m *Operations) carryOut(ctx context.Context, id core.ID, s Second, within []byte) (core.Record, error) {
	if err := s.check("CarryOut"); err != nil {
		return core.Record{}, err
	}
	rec, err := m.decided(ctx, id, s.Fence, within)
	if err != nil {
		return core.Record{}, err
	}
	storeCtx, cancel := m.brief(ctx)
	defer cancel()
	p, err := m.openProposal(storeCtx, rec)
	if err == nil {
		err = p.is(s.Digest)
	}
	switch {
	case err != nil:
		return core.Record{}, err
	case p.Unread:
		return core.Record{}, errUnread
	case p.Who == s.By.Name(): // the name of a principal is that of no other
		return core.Record{}, errOwnProposal
	}
	d := p.Decision
	d.Who, d.Why = s.By.Name(), s.Why
	return m.in.Settle(ctx, rec, d, p.token, p.Who)
}

// Withdraw withdraws an open proposal, its own or another principal's, and adds a row that says who, when and why.
//
// Errors: a field of s is missing; ErrNotFound; store.ErrNotSettleable if there is no such proposal; ErrStale if somebody
// was quicker. Any other error means that the store did not answer.
func (m *Operations) Withdraw(ctx context.Context, id core.ID, s Second) error {
	_, err := m.withdraw(ctx, id, s, m.service)
	return err
}

func (m *Operations) withdraw(ctx context.Context, id core.ID, s Second, within []byte) (core.Record, error) {
	if err := s.check("Withdraw"); err != nil {
		return core.Record{}, err
	}
	rec, p, err := m.proposedAbout(ctx, id, s.Fence, within)
	if err == nil {
		err = p.is(s.Digest)
	}
	if err != nil {
		return rec, err
	}
	n := store.Note{ID: id, Who: s.By.Name(), Text: s.Why, Fence: p.Fence}
	_, _ = rand.Read(n.Token[:]) // never fails since Go 1.24
	storeCtx, cancel := m.brief(ctx)
	defer cancel()
	if err = m.store.(store.Proposals).Withdraw(storeCtx, p.token, n); err == nil {
		m.in.Observe(ctx, p.event(core.EventWithdrawn, rec, n.Who, n.Text))
	}
	return rec, err
}

// event is one about a proposal.
func (p *Proposal) event(kind core.EventKind, rec core.Record, who, why string) core.Event {
	e := core.Event{Kind: kind, Operation: rec.ID, Method: rec.Method, Route: rec.Route, Recovery: rec.Recovery,
		Fence: rec.Fence, Who: who, Why: why, Digest: p.Digest}
	if !p.Unread {
		e.Outcome = p.Decision.Outcome()
	}
	return e
}

// is says why a digest is not that of an open proposal; p is nil where there is none.
func (p *Proposal) is(digest string) error {
	switch {
	case p == nil:
		return errNoProposal
	case p.Digest != digest:
		return errOtherDigest
	}
	return nil
}

// proposedAbout finds an operation that a decision is about, and the open proposal about it; nil: there is none.
func (m *Operations) proposedAbout(ctx context.Context, id core.ID, fence int64, within []byte) (
	core.Record, *Proposal, error,
) {
	if _, ok := m.store.(store.Proposals); !ok {
		return core.Record{}, nil, errNoProposals
	}
	rec, err := m.decided(ctx, id, fence, within)
	if err != nil {
		return rec, nil, err
	}
	ctx, cancel := m.brief(ctx)
	defer cancel()
	p, err := m.openProposal(ctx, rec)
	return rec, p, err
}

// openProposal reads the open proposal about a record as it is; nil: there is none.
func (m *Operations) openProposal(ctx context.Context, rec core.Record) (*Proposal, error) {
	if _, ok := m.store.(store.Proposals); !ok || rec.State() != store.Unknown {
		return nil, nil
	}
	notes, err := m.store.Notes(ctx, []core.ID{rec.ID})
	if err != nil {
		return nil, err
	}
	return openIn(notes[rec.ID], rec), nil
}

// openIn returns the open proposal among the notes on a record; nil: there is none.
func openIn(notes []store.Note, rec core.Record) *Proposal {
	i := slices.IndexFunc(notes, func(n store.Note) bool { return n.Kind == store.OpenProposal && n.Fence == rec.Fence })
	if i < 0 || rec.State() != store.Unknown {
		return nil
	}
	n := notes[i]
	p := &Proposal{Who: n.Who, Why: n.Text, At: n.At, Fence: n.Fence, token: n.Token}
	var err error
	if p.Decision, err = decodeDecision(n.Decision); err != nil {
		p.Unread, p.Digest = true, digestOf(store.Note{Token: n.Token})
		return p
	}
	p.Digest = digestOf(n)
	return p
}

// keptDecision is what is kept of a proposed decision. Its digest is made of these bytes: see [Proposal.Digest].
type keptDecision struct {
	Outcome string      `json:"outcome"`
	Undone  string      `json:"undone,omitempty"`
	Status  int         `json:"status,omitempty"`
	Header  http.Header `json:"headers,omitempty"`
	Body    []byte      `json:"body,omitempty"` // in base64
}

func encode(d core.Decision) ([]byte, error) {
	kept := keptDecision{Outcome: d.Outcome(), Undone: d.Undone}
	if d.Answer != nil {
		kept.Status, kept.Header, kept.Body = d.Answer.Status, d.Answer.Header, d.Answer.Body
		for _, values := range kept.Header {
			if slices.ContainsFunc(values, func(value string) bool { return !text.Storable(value) }) {
				return nil, errors.New("idem: Propose: the headers of a proposed Answer are text: valid UTF-8, no NUL")
			}
		}
	}
	return json.Marshal(kept)
}

func decodeDecision(data []byte) (core.Decision, error) {
	var kept keptDecision
	if err := unmarshalStrict(data, &kept); err != nil { // of a newer release, say: half of it is another decision
		return core.Decision{}, err
	}
	switch applied := kept.Status != 0; {
	case kept.Outcome == "applied" && (kept.Status < 200 || kept.Status > 499), kept.Outcome == "not_applied" && applied,
		kept.Outcome != "applied" && kept.Outcome != "not_applied":
		return core.Decision{}, errUnread
	}
	d := core.Decision{Applied: kept.Outcome == "applied", Undone: kept.Undone}
	if d.Applied {
		d.Answer = &core.Answer{Status: kept.Status, Header: kept.Header, Body: kept.Body}
	}
	return d, nil
}

// maxReason is how long the reason of a proposal may be, in bytes: lists show it.
const maxReason = 16 << 10

// digestOf is of this proposal and of no other one, also where another has the same answer: somebody may have withdrawn what
// the second person has read.
func digestOf(n store.Note) string {
	return fmt.Sprintf("%x", sha256.Sum256(slices.Concat(n.Token[:], n.Decision)))
}
