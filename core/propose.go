package core

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// Proposal is a settlement that an operator has proposed. Nothing of the operation has changed: its repeats are told
// outcome_unknown, and only operators hear of it.
type Proposal struct {
	Who      string // the name of the principal that has proposed it
	Why      string
	At       time.Time // by the store's clock
	Fence    int64     // of the attempt that it is about
	Decision Decision  // Applied, Answer and Undone
	Digest   string    // SHA-256 in hex, of its name and Decision. Who carries it out says by it which one they have read
	// Unread: this instance cannot read Decision. The proposal can be withdrawn, by the digest of its own name.
	Unread bool

	token [16]byte
}

// notSettleable is a refusal of a settlement, in words for the operator. It is a store.ErrNotSettleable.
type notSettleable string

func (e notSettleable) Error() string      { return "idem: not settleable: " + string(e) }
func (notSettleable) Is(target error) bool { return target == store.ErrNotSettleable }

const (
	errHalfDone notSettleable = "the operation is half-done: let it be tried again (ServeRetry), or give it up " +
		"(ServeGiveUp), and settle it then"
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
func (m *Module) TakesTwo(rec Record) bool {
	policy, known := m.policyOf(rec.Method, rec.Route)
	return policy.TwoToSettle || !known && slices.ContainsFunc(m.allRoutes(), func(r *route) bool { return r.TwoToSettle })
}

// Propose proposes a settlement, whatever Policy.TwoToSettle says. Nothing is settled until another principal carries
// it out with [Module.Settle]; until then it can be withdrawn with [Module.Withdraw]. By and Fence of d are required. If ctx
// is that of a Rollback attempt on the same store, it commits with the attempt.
//
// Errors: those of Settle; store.ErrNotSettleable also if there is an open proposal about this attempt. Why and
// Undone have at most 16 KiB each; Answer is whole (not Partial), and its headers are text.
func (m *Module) Propose(ctx context.Context, id ID, d Decision) (Proposal, error) {
	_, p, err := m.propose(ctx, id, d, m.service)
	return p, err
}

func (m *Module) propose(ctx context.Context, id ID, d Decision, within []byte) (Record, Proposal, error) {
	if d.Digest != "" {
		return Record{}, Proposal{}, errors.New("idem: Propose: Digest is for who carries a proposal out; leave it out")
	}
	if err := d.byPrincipal("Propose"); err != nil {
		return Record{}, Proposal{}, err
	}
	if err := d.check("Propose"); err != nil {
		return Record{}, Proposal{}, err
	}
	if d.Answer != nil && d.Answer.Partial {
		return Record{}, Proposal{}, errors.New("idem: Propose: Answer.Partial: propose the whole answer; repeats get its body")
	}
	if max(len(d.Why), len(d.Undone)) > maxReason {
		return Record{}, Proposal{}, fmt.Errorf("idem: Propose: Why and Undone have at most %d bytes", maxReason)
	}
	storeCtx, cancel := context.WithTimeout(ctx, m.cfg.ClaimTimeout)
	defer cancel()
	rec, open, err := m.proposedAbout(storeCtx, id, d.Fence, within)
	switch {
	case err != nil:
		return rec, Proposal{}, err
	case open != nil:
		return rec, Proposal{}, errProposed
	}
	if err := m.mayBeUndone(ctx, rec, d); err != nil {
		return rec, Proposal{}, err
	}
	p := Proposal{Who: d.Who, Why: d.Why, At: rec.Now, Fence: rec.Fence,
		Decision: Decision{Applied: d.Applied, Undone: d.Undone, Answer: m.keptAnswer(d.Answer)}}
	kept, err := p.Decision.encode()
	if err != nil {
		return rec, Proposal{}, err
	}
	n := store.Note{ID: id, Who: p.Who, Text: p.Why, Fence: p.Fence, Decision: kept}
	_, _ = rand.Read(n.Token[:]) // never fails since Go 1.24
	p.Digest = digestOf(n)
	storeCtx, cancel = context.WithTimeout(ctx, m.cfg.ClaimTimeout) // reading the steps may have taken its time
	defer cancel()
	err = m.operations.(store.Proposals).Propose(storeCtx, n, m.window()) // proposedAbout has refused any other store
	if errors.Is(err, ErrClock) {
		m.tellClock(ctx, err)
	}
	if err == nil {
		m.observe(ctx, p.event(EventProposed, rec, p.Who, p.Why))
	}
	return rec, p, err
}

// Withdraw withdraws an open proposal, its own or another principal's, and adds a row that says who, when and why. By, Why,
// Fence and Digest of d are required, the rest is left out.
//
// Errors: a field of d is missing or too much; ErrNotFound; store.ErrNotSettleable if there is no such proposal; ErrStale if
// somebody was quicker. Any other error means that the store did not answer.
func (m *Module) Withdraw(ctx context.Context, id ID, d Decision) error {
	_, err := m.withdraw(ctx, id, d, m.service)
	return err
}

func (m *Module) withdraw(ctx context.Context, id ID, d Decision, within []byte) (Record, error) {
	if err := d.byPrincipal("Withdraw"); err != nil {
		return Record{}, err
	}
	if err := d.check("Withdraw"); err != nil {
		return Record{}, err
	}
	storeCtx, cancel := context.WithTimeout(ctx, m.cfg.ClaimTimeout)
	defer cancel()
	rec, p, err := m.proposedAbout(storeCtx, id, d.Fence, within)
	if err == nil {
		err = p.is(d.Digest)
	}
	if err != nil {
		return rec, err
	}
	n := store.Note{ID: id, Who: d.Who, Text: d.Why, Fence: p.Fence}
	_, _ = rand.Read(n.Token[:]) // never fails since Go 1.24
	if err = m.operations.(store.Proposals).Withdraw(storeCtx, p.token, n); err == nil {
		m.observe(ctx, p.event(EventWithdrawn, rec, d.Who, d.Why))
	}
	return rec, err
}

// event is one about a proposal.
func (p *Proposal) event(kind EventKind, rec Record, who, why string) Event {
	e := Event{Kind: kind, Operation: rec.ID, Method: rec.Method, Route: rec.Route, Recovery: rec.Recovery, Fence: rec.Fence,
		Who: who, Why: why, Digest: p.Digest}
	if !p.Unread {
		e.Outcome = p.Decision.outcome()
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
func (m *Module) proposedAbout(ctx context.Context, id ID, fence int64, within []byte) (Record, *Proposal, error) {
	if _, ok := m.operations.(store.Proposals); !ok {
		return Record{}, nil, errNoProposals
	}
	rec, err := m.decided(ctx, id, fence, within)
	if err != nil {
		return rec, nil, err
	}
	p, err := m.openProposal(ctx, rec)
	return rec, p, err
}

// openProposal reads the open proposal about a record as it is; nil: there is none.
func (m *Module) openProposal(ctx context.Context, rec Record) (*Proposal, error) {
	if _, ok := m.operations.(store.Proposals); !ok || rec.State() != store.Unknown {
		return nil, nil
	}
	notes, err := m.operations.Notes(ctx, []ID{rec.ID})
	if err != nil {
		return nil, err
	}
	return openIn(notes[rec.ID], rec), nil
}

// openIn returns the open proposal among the notes on a record; nil: there is none.
func openIn(notes []store.Note, rec Record) *Proposal {
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

func (d Decision) encode() ([]byte, error) {
	kept := keptDecision{Outcome: d.outcome(), Undone: d.Undone}
	if d.Answer != nil {
		kept.Status, kept.Header, kept.Body = d.Answer.Status, d.Answer.Header, d.Answer.Body
		for _, values := range kept.Header {
			if slices.ContainsFunc(values, func(value string) bool { return !isText(value) }) {
				return nil, errors.New("idem: Propose: the headers of a proposed Answer are text: valid UTF-8, no NUL")
			}
		}
	}
	return json.Marshal(kept)
}

func decodeDecision(data []byte) (Decision, error) {
	var kept keptDecision
	if err := unmarshalStrict(data, &kept); err != nil { // of a newer release, say: half of it is another decision
		return Decision{}, err
	}
	switch applied := kept.Status != 0; {
	case kept.Outcome == "applied" && (kept.Status < 200 || kept.Status > 499), kept.Outcome == "not_applied" && applied,
		kept.Outcome != "applied" && kept.Outcome != "not_applied":
		return Decision{}, errUnread
	}
	d := Decision{Applied: kept.Outcome == "applied", Undone: kept.Undone}
	if d.Applied {
		d.Answer = &Answer{Status: kept.Status, Header: kept.Header, Body: kept.Body}
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
