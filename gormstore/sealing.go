package gormstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
)

// AEAD seals and opens bytes. [AESGCM] returns one, and those of Tink (github.com/tink-crypto/tink-go) have the same
// methods. It must be safe for many goroutines, and local: each answer is sealed inside its transaction. So one that asks a
// KMS for each message (an envelope AEAD) is wrong here. Unwrap the keyset by the KMS once, when the app starts.
type AEAD interface {
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// KeyNamer is an [AEAD] that [Lost] can be used with. The one of [AESGCM] is.
type KeyNamer interface {
	// KeyName returns the name of the key that has sealed a message. It needs no key; false: it was not sealed by this AEAD.
	KeyName(ciphertext []byte) (name string, ok bool)
}

// Seal seals the answers and the results of steps that the store writes, and opens those that it reads. Rows of before stay
// readable. Give the keys to all instances with [Unseal] first: an instance that cannot open an answer repeats it to nobody
// (503). To switch it off, go back to Unseal, and leave the keys there. See docs/database.md for what is not sealed.
//
// A seal that fails, panics, or takes longer than 5 s, half of the time that the attempt has left, or the claim timeout
// where no rows are written: a Rollback attempt is rolled back (503). Of Park and Resume the status alone is recorded,
// which is an event, and a call stays unfinished.
func Seal(aead AEAD) Option { return func(o *options) { o.seals = append(o.seals, given{aead, true}) } }

// Unseal opens what other instances have sealed with aead, and seals nothing. See [Seal].
func Unseal(aead AEAD) Option {
	return func(o *options) { o.seals = append(o.seals, given{aead, false}) }
}

// Lost names sealing keys that are lost for good. The repeat of a completed command whose answer such a key has sealed is
// told 409 response_not_replayable, instead of 503; a Resume operation that needs the result of such a step is parked.
func Lost(names ...string) Option { return func(o *options) { o.lost = append(o.lost, names...) } }

// The encodings of answers and of results of steps.
const (
	plain  = 1 // as they are
	sealed = 2 // the body is the sealed message of headers and body; there are no headers
)

// sealPatience is how long a seal may take at most, and sealGrace how long that of an answer that comes after its deadline.
const (
	sealPatience = 5 * time.Second
	sealGrace    = time.Second
)

// maxSealCalls is how many calls of an app's AEAD run at once at most: those that hang must not become more and more.
const maxSealCalls = 256

// given is the AEAD of an option.
type given struct {
	AEAD
	on bool // the store seals
}

// sealer seals what a store writes, and opens what it reads.
type sealer struct {
	AEAD
	on      bool // the store seals
	lost    []string
	running chan struct{} // of an AEAD of the app

	mu   sync.Mutex
	park map[store.Ticket]*onceSealed
}

// newSealer checks the options.
func newSealer(o options) (*sealer, error) {
	s := &sealer{lost: o.lost, running: make(chan struct{}, maxSealCalls), park: map[store.Ticket]*onceSealed{}}
	switch {
	case len(o.seals) > 1:
		return nil, errors.New("Seal, Unseal: give one AEAD, once; one that changes its key opens with the older ones too")
	case len(o.seals) == 1 && o.seals[0].AEAD == nil:
		return nil, errors.New("Seal, Unseal: the AEAD is nil; leave the option out, or give one: see AESGCM")
	case len(o.seals) == 1:
		s.AEAD, s.on = o.seals[0].AEAD, o.seals[0].on
	}
	if _, names := s.AEAD.(KeyNamer); len(s.lost) > 0 && s.AEAD != nil && !names {
		return nil, fmt.Errorf("Lost: this AEAD does not say which key has sealed a message; give it the method KeyName of " +
			"KeyNamer")
	}
	for _, name := range s.lost {
		if ring, ok := s.AEAD.(*keyring); name == "" || ok && ring.has(name) {
			return nil, fmt.Errorf("Lost(%q): want the name of a key that is lost; this one is given to Seal or Unseal, or is empty",
				name)
		}
	}
	if s.AEAD == nil {
		return s, nil
	}
	probe, data := []byte("idem: what is sealed cannot be read"), []byte("probe")
	ctx, cancel := context.WithTimeout(context.Background(), sealPatience)
	defer cancel()
	box, err := s.call(ctx, s.Encrypt, probe, data)
	if err != nil {
		if s.on {
			return nil, fmt.Errorf("Seal: the AEAD seals nothing: %w", err)
		}
		return s, nil // it may be one that only opens
	}
	open, err := s.call(ctx, s.Decrypt, box, data)
	_, other := s.call(ctx, s.Decrypt, box, []byte("other"))
	if err != nil || !bytes.Equal(open, probe) || other == nil || bytes.Contains(box, probe) {
		return nil, errors.Join(errors.New("Seal, Unseal: the AEAD does not seal, or does not open what it has sealed, or opens "+
			"it with other associated data"), err)
	}
	return s, nil
}

// call calls a method of the AEAD. One of the app may hang or panic; ctx bounds how long call waits.
func (s *sealer) call(ctx context.Context, method func(text, data []byte) ([]byte, error), text, data []byte) (
	out []byte, err error) {
	if _, own := s.AEAD.(*keyring); own {
		return method(text, data)
	}
	if err := ctx.Err(); err != nil { // of rows that were to be opened together
		return nil, err
	}
	select {
	case s.running <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%d calls of the AEAD have not ended: %w", maxSealCalls, ctx.Err())
	}
	type result struct {
		out []byte
		err error
	}
	ended := make(chan result, 1)
	go func() {
		r := result{err: errors.New("it has ended its goroutine")}
		defer func() {
			if p := recover(); p != nil {
				r = result{err: errors.New("it panicked")} // with what, may be a key
			}
			<-s.running
			ended <- r
		}()
		r.out, r.err = method(text, data)
	}()
	select {
	case r := <-ended:
		return r.out, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("it has not ended: %w", ctx.Err())
	}
}

// within bounds a call of the AEAD by half of what is left until a deadline, so that the rest is enough to record that it
// has failed. deadline is zero where there is none.
func within(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	limit := sealPatience
	switch left := time.Until(deadline); {
	case deadline.IsZero():
	case left <= 0:
		limit = sealGrace
	default:
		limit = min(limit, left/2)
	}
	return context.WithTimeout(ctx, limit)
}

// dataVersion is the version of the associated data.
const dataVersion = 1

// answerData binds an answer to its record, its status, and whether it is partial. Neither fence nor owner is in it: they
// change, and the answer stays.
func answerData(id store.ID, status int, partial bool) []byte {
	data := append([]byte("idem"), dataVersion, 'a')
	data = binary.BigEndian.AppendUint16(append(data, id[:]...), uint16(status)) //nolint:gosec // of HTTP
	if partial {
		return append(data, 1)
	}
	return append(data, 0)
}

// stepData binds the result of a step to its record, its kind and its name.
func stepData(id store.ID, kind store.StepKind, name string) []byte {
	data := append([]byte("idem"), dataVersion, 's')
	return append(append(append(data, id[:]...), byte(kind)), name...)
}

// proposalData binds what a proposal says to its record, to the form that it came by, and to the attempt that it is about.
func proposalData(id store.ID, token [16]byte, fence int64) []byte {
	data := append(append([]byte("idem"), dataVersion, 'p'), id[:]...)
	return binary.BigEndian.AppendUint64(append(data, token[:]...), uint64(fence)) //nolint:gosec // not negative
}

// storedAnswer is an answer as it is written.
type storedAnswer struct {
	status        int
	partial       bool
	encoding      int64
	headers, body []byte
}

// answer returns the stored form of an answer. It is plain where nothing is sealed, or where the status is all there is.
func (s *sealer) answer(ctx context.Context, deadline time.Time, id store.ID, a store.Answer) (storedAnswer, error) {
	headers, err := encodeHeaders(a.Header)
	if err == nil && a.Unread != store.Readable { // it would become an answer without headers and body
		err = fmt.Errorf("idem: gormstore: the answer of the operation %v: %w", id, store.ErrUnreadable)
	}
	if err != nil {
		return storedAnswer{}, err
	}
	stored := storedAnswer{a.Status, a.Partial, plain, headers, a.Body}
	if !s.on || a.Partial && headers == nil && a.Body == nil {
		return stored, nil
	}
	message := slices.Concat(binary.AppendUvarint(nil, uint64(len(headers))), headers, a.Body)
	stored.encoding, stored.headers = sealed, nil
	stored.body, err = s.seal(ctx, deadline, message, answerData(id, a.Status, a.Partial))
	return stored, err
}

// seal seals a message of an attempt that has this deadline; zero: it has none.
func (s *sealer) seal(ctx context.Context, deadline time.Time, message, data []byte) ([]byte, error) {
	ctx, cancel := within(ctx, deadline)
	defer cancel()
	box, err := s.call(ctx, s.Encrypt, message, data)
	if err == nil && len(box) == 0 {
		err = errors.New("it has returned nothing")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnsealed, err)
	}
	return box, nil
}

// open opens what was read. A result other than store.Readable says that it cannot.
func (s *sealer) open(ctx context.Context, encoding int16, stored, data []byte) ([]byte, store.Unread) {
	switch {
	case encoding == plain:
		return stored, store.Readable
	case encoding != sealed || len(stored) == 0:
		return nil, store.Unreadable
	}
	ctx, cancel := opening(ctx)
	defer cancel()
	switch {
	case s.isLost(ctx, stored):
		return nil, store.Lost
	case s.AEAD == nil:
		return nil, store.Unreadable
	}
	message, err := s.call(ctx, s.Decrypt, stored, data)
	if err != nil {
		return nil, store.Unreadable
	}
	return message, store.Readable
}

// opening bounds how long the rows of one question are opened together: by half of what is left of its time, so that the
// rest is enough to say that they cannot be read.
func opening(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, _ := ctx.Deadline()
	return within(ctx, deadline)
}

func (s *sealer) isLost(ctx context.Context, box []byte) bool {
	if len(s.lost) == 0 {
		return false
	}
	namer, ok := s.AEAD.(KeyNamer)
	if !ok { // all keys are lost, or sealing is given up
		namer = (*keyring)(nil)
	}
	name, err := s.call(ctx, func(box, _ []byte) ([]byte, error) { // one of the app may hang or panic
		name, ok := namer.KeyName(box)
		if !ok {
			return nil, errors.New("it was not sealed by this AEAD")
		}
		return []byte(name), nil
	}, box, nil)
	return err == nil && slices.Contains(s.lost, string(name))
}

// openAnswer is a stored answer. Only that of a completed record is opened: others have none any more.
func (s *sealer) openAnswer(ctx context.Context, id store.ID, stored storedAnswer) store.Answer {
	a := store.Answer{Status: stored.status, Partial: stored.partial}
	headers, body := stored.headers, stored.body
	if stored.encoding != plain {
		data := answerData(id, a.Status, a.Partial)
		message, unread := s.open(ctx, int16(stored.encoding), stored.body, data) //nolint:gosec // a small number
		if a.Unread = unread; unread != store.Readable {
			return a
		}
		size, n := binary.Uvarint(message)
		if n <= 0 || size > uint64(len(message)-n) { //nolint:gosec // not negative
			a.Unread = store.Unreadable
			return a
		}
		headers, body = message[n:][:size], message[n:][size:]
	}
	header, err := decodeHeaders(headers)
	if err != nil {
		a.Unread = store.Unreadable
		return a
	}
	if a.Header = header; len(body) > 0 {
		a.Body = body
	}
	return a
}

// onceSealed is an answer that is sealed once, however often it is sent.
type onceSealed struct {
	mu       sync.Mutex
	deadline time.Time   // of the attempt
	forget   *time.Timer // of Park
	done     bool
	of       store.Answer
	answer   storedAnswer
}

// get seals the answer the first time.
func (o *onceSealed) get(ctx context.Context, s *sealer, id store.ID, a store.Answer) (storedAnswer, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done && o.of.Status == a.Status && o.of.Partial == a.Partial && bytes.Equal(o.of.Body, a.Body) &&
		maps.EqualFunc(o.of.Header, a.Header, slices.Equal) {
		return o.answer, nil
	}
	answer, err := s.answer(ctx, o.deadline, id, a)
	if err == nil {
		o.done, o.of, o.answer = true, a, answer
	}
	return answer, err
}

// is reports whether two stored answers are the same bytes.
func (a storedAnswer) is(b storedAnswer) bool {
	return a.status == b.status && a.partial == b.partial && a.encoding == b.encoding && bytes.Equal(a.headers, b.headers) &&
		bytes.Equal(a.body, b.body)
}

// encoding is that of results of steps.
func (s *sealer) encoding() int64 {
	if s.on {
		return sealed
	}
	return plain
}

// sealUp seals what the segment is to write, once for the attempt. A step whose result cannot be sealed has not finished
// . If the answer of a Resume attempt cannot be sealed, nothing was sent, and the caller may give the status alone.
func (e *segment) sealUp(ctx context.Context) error {
	a := e.attempt
	e.results = make([][]byte, 0, len(e.seal.Steps))
	for _, step := range e.seal.Steps {
		result, err := a.sealResult(ctx, step)
		if err != nil {
			return fmt.Errorf("%w: step %q: %w", store.ErrRetryable, step.Name, err)
		}
		e.results = append(e.results, result)
	}
	if e.seal.Answer == nil {
		return nil
	}
	var err error
	e.answer, err = a.answer.get(ctx, e.store.sealer, e.claim.ID, e.seal.Answer.Answer)
	if err != nil && (e.claim.Recovery != store.Resume || !errors.Is(err, store.ErrUnsealed)) {
		err = fmt.Errorf("%w: %w", store.ErrRetryable, err)
	}
	return err
}

// sealedResult is the result of a step, and what is recorded of it.
type sealedResult struct{ of, sealed []byte }

func (a *attempt) sealResult(ctx context.Context, step store.StepRecord) ([]byte, error) {
	s := a.store.sealer
	if !s.on {
		return step.Result, nil
	}
	if r, ok := a.results[step.Name]; ok && bytes.Equal(r.of, step.Result) {
		return r.sealed, nil
	}
	box, err := s.seal(ctx, a.answer.deadline, step.Result, stepData(a.claim.ID, step.Kind, step.Name))
	if err != nil {
		return nil, err
	}
	if a.results == nil {
		a.results = map[string]sealedResult{}
	}
	a.results[step.Name] = sealedResult{step.Result, box}
	return box, nil
}

// keepSealed is how long a Park attempt's sealed answer is kept behind its deadline, for an owner that wakes late.
const keepSealed = time.Minute

// expect notes a Park attempt, whose answer is sealed once and within its deadline.
func (s *sealer) expect(t store.Ticket, deadline time.Time) {
	if !s.on {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(t, deadline)
}

func (s *sealer) keep(t store.Ticket, deadline time.Time) *onceSealed {
	o := &onceSealed{deadline: deadline}
	o.forget = time.AfterFunc(max(time.Until(deadline), 0)+keepSealed, func() { s.forget(t) })
	s.park[t] = o
	return o
}

// parked is the answer of a Park attempt, which may have been claimed by another process, or long ago.
func (s *sealer) parked(t store.Ticket) *onceSealed {
	if !s.on {
		return &onceSealed{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.park[t]; o != nil {
		return o
	}
	return s.keep(t, time.Time{})
}

func (s *sealer) forget(t store.Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.park[t]; o != nil {
		o.forget.Stop()
		delete(s.park, t)
	}
}
