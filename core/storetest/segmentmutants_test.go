package storetest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
)

// The mutants of store.Segments, over a store that has rows.
var segmentMutants = map[string]mutantOf[*reference, store.Stepper]{
	"records at the claim":                  {"Segment/Unseen", newEager},
	"does not look for the running":         {"Segment/Unseen", func(s *reference) store.Stepper { return asksNobody{s} }},
	"never rolls back a segment":            {"Segment/Rollback", ofSegments(neverRollsBack)},
	"keeps rows of a segment":               {"Segment/Rollback", ofSegments(rowsOfRollback)},
	"commits rows with each step":           {"Segment/Together", ofSegments(rowsOfSteps)},
	"forgets the start":                     {"Segment/Together", ofSegments(noStart)},
	"keeps rows beside a result":            {"Segment/Alone", ofSegments(neverAlone)},
	"forgets results alone":                 {"Segment/Alone", ofSegments(aloneIsRollback)},
	"takes the last sealed answer":          {"Segment/AnswerStands", func(s *reference) store.Stepper { return &lastSealed{reference: s} }},
	"refuses an answer sealed again":        {"Segment/AnswerStands", ofSegments(answersOnce)},
	"records steps without rows":            {"Segment/Undone", ofSegments(stepsWithoutRows)},
	"opens without a word":                  {"Segment/Opening", ofSegments(opensSilently)},
	"announces the first segment":           {"Segment/Opening", ofSegments(announcesAll)},
	"takes over with the first seal":        {"Segment/TakenOver", func(s *reference) store.Stepper { return &lazyTakeover{reference: s} }},
	"takes over an open segment":            {"Segment/Held", func(s *reference) store.Stepper { return &ignoresHolders{reference: s} }},
	"holds the key for ever":                {"Segment/Held", ofSegments(neverRollsBack)},
	"answers for stale attempts":            {"Segment/Stale", ofSegments(confirmsAnswers)},
	"writes the times of the claim":         {"Segment/Times", func(s *reference) store.Stepper { return &claimTimes{reference: s} }},
	"does not renew with a seal":            {"Segment/Times", func(s *reference) store.Stepper { return &neverRenews{reference: s} }},
	"seals by any clock":                    {"Segment/Clock", ofSegments(anyWindow)},
	"ends segments with the claim":          {"Segment/ClaimContext", func(s *reference) store.Stepper { return endsWithClaim{s} }},
	"makes replays busy":                    {"Segment/HotKey", func(s *reference) store.Stepper { return &locksFirst{reference: s} }},
	"asks with the lock":                    {"Segment/QuestionsClaimNothing", func(s *reference) store.Stepper { return &asksWithLock{reference: s} }},
	"looks before it resumes":               {"Segment/OneOfManyRuns", func(s *reference) store.Stepper { return resumesAnyway{s} }},
	"keeps rows of a segment, under stress": {"Stress", ofSegments(rowsOfRollback)},
	"imports over an open attempt":          {"Import/AttemptUnderWay", func(s *reference) store.Stepper { return importsAnyway{s} }},
}

// ofSegments returns a mutant whose segments have a fault.
func ofSegments(fault func(*referenceTx, store.Claim) store.Segments) func(*reference) store.Stepper {
	return func(s *reference) store.Stepper { return segmentFault{s, fault} }
}

type segmentFault struct {
	*reference
	fault func(*referenceTx, store.Claim) store.Segments
}

func (s segmentFault) Resume(ctx context.Context, c store.Claim) (store.Segments, store.Claimed, error) {
	segments, got, err := s.reference.Resume(ctx, c)
	if segments != nil {
		segments = s.fault(segments.(*referenceTx), c)
	}
	return segments, got, err
}

func newEager(s *reference) store.Stepper {
	return ofSegments(func(tx *referenceTx, _ store.Claim) store.Segments {
		_, _ = tx.Seal(context.Background(), store.Seal{})
		return tx
	})(s)
}

type asksNobody struct{ *reference }

func (s asksNobody) InFlight(ctx context.Context, _ store.ID) (bool, error) { return false, ctx.Err() }

type faultyRollback struct {
	store.Segments
	rollback func() error
}

func (s faultyRollback) Rollback() error { return s.rollback() }

func neverRollsBack(tx *referenceTx, _ store.Claim) store.Segments {
	return faultyRollback{tx, func() error { return nil }}
}

func rowsOfRollback(tx *referenceTx, _ store.Claim) store.Segments {
	return faultyRollback{tx, func() error {
		tx.commitRows()
		return tx.Rollback()
	}}
}

type rowsAtOnce struct{ *referenceTx }

func rowsOfSteps(tx *referenceTx, _ store.Claim) store.Segments { return rowsAtOnce{tx} }

func (s rowsAtOnce) Step(ctx context.Context, work func(ctx context.Context) error) error {
	defer s.commitRows()
	return s.referenceTx.Step(ctx, work)
}

// changed seals something else.
func changed(tx *referenceTx, change func(*store.Seal)) store.Segments {
	return faultySeal{tx, func(ctx context.Context, seal store.Seal) (time.Time, error) {
		change(&seal)
		return tx.Seal(ctx, seal)
	}}
}

func noStart(tx *referenceTx, _ store.Claim) store.Segments {
	return changed(tx, func(s *store.Seal) { s.Start = nil })
}

func neverAlone(tx *referenceTx, _ store.Claim) store.Segments {
	return changed(tx, func(s *store.Seal) { s.Alone = false })
}

func aloneIsRollback(tx *referenceTx, _ store.Claim) store.Segments {
	return changed(tx, func(s *store.Seal) {
		if s.Alone && s.Answer == nil {
			s.Steps = nil
		}
	})
}

// lastSealed answers with what was sealed last.
type lastSealed struct {
	*reference
	last sync.Map
}

func (s *lastSealed) Resume(ctx context.Context, c store.Claim) (store.Segments, store.Claimed, error) {
	return segmentFault{s.reference, func(tx *referenceTx, c store.Claim) store.Segments {
		return changed(tx, func(seal *store.Seal) {
			if seal.Answer != nil {
				s.last.Store(c.ID, seal.Answer.Answer)
			}
		})
	}}.Resume(ctx, c)
}

func (s *lastSealed) Find(ctx context.Context, id store.ID) (store.Record, error) {
	r, err := s.reference.Find(ctx, id)
	if last, ok := s.last.Load(id); ok {
		r.Answer = last.(store.Answer)
	}
	return r, err
}

func answersOnce(tx *referenceTx, _ store.Claim) store.Segments {
	answered := false
	return faultySeal{tx, func(ctx context.Context, seal store.Seal) (time.Time, error) {
		if answered {
			return time.Time{}, store.ErrStale
		}
		answered = seal.Answer != nil
		return tx.Seal(ctx, seal)
	}}
}

func stepsWithoutRows(tx *referenceTx, _ store.Claim) store.Segments {
	return faultySeal{tx, func(ctx context.Context, seal store.Seal) (time.Time, error) {
		now, err := tx.Seal(ctx, seal)
		if errors.Is(err, store.ErrRetryable) {
			seal.Steps = slices.Clone(seal.Steps)
			for i := range seal.Steps {
				seal.Steps[i].Kind = store.ProviderStep
			}
			return tx.Seal(ctx, seal)
		}
		return now, err
	}}
}

type silent struct{ *referenceTx }

func opensSilently(tx *referenceTx, _ store.Claim) store.Segments { return silent{tx} }

func (s silent) Opening(func() error) { s.referenceTx.Opening(func() error { return nil }) }

// announcer announces the first segment too.
type announcer struct {
	*referenceTx
	first func() error
}

func announcesAll(tx *referenceTx, _ store.Claim) store.Segments { return &announcer{referenceTx: tx} }

func (s *announcer) Opening(fn func() error) {
	s.first = fn
	s.referenceTx.Opening(fn)
}

func (s *announcer) Step(ctx context.Context, work func(ctx context.Context) error) error {
	if s.first != nil {
		if err := s.first(); err != nil {
			return err
		}
		s.first = nil
	}
	return s.referenceTx.Step(ctx, work)
}

// lazyTakeover shows the record as it was until the attempt that has taken it over seals something.
type lazyTakeover struct {
	*reference
	before sync.Map
}

func (s *lazyTakeover) Resume(ctx context.Context, c store.Claim) (store.Segments, store.Claimed, error) {
	before, found := s.reference.Find(ctx, c.ID)
	segments, got, err := s.reference.Resume(ctx, c)
	if segments != nil && found == nil {
		s.before.Store(c.ID, before)
		segments = changed(segments.(*referenceTx), func(*store.Seal) { s.before.Delete(c.ID) })
	}
	return segments, got, err
}

func (s *lazyTakeover) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if before, ok := s.before.Load(id); ok {
		return before.(store.Record), nil
	}
	return s.reference.Find(ctx, id)
}

// ignoresHolders ends the segment of another attempt.
type ignoresHolders struct {
	*reference
	open sync.Map
}

func (s *ignoresHolders) Resume(ctx context.Context, c store.Claim) (store.Segments, store.Claimed, error) {
	segments, got, err := s.reference.Resume(ctx, c)
	if other, ok := s.open.Load(c.ID); ok && got.Busy {
		_ = other.(store.Segments).Rollback()
		segments, got, err = s.reference.Resume(ctx, c)
	}
	if segments != nil {
		s.open.Store(c.ID, segments)
	}
	return segments, got, err
}

func confirmsAnswers(tx *referenceTx, _ store.Claim) store.Segments {
	return faultySeal{tx, func(ctx context.Context, seal store.Seal) (time.Time, error) {
		now, err := tx.Seal(ctx, seal)
		if errors.Is(err, store.ErrStale) && seal.Answer != nil {
			err = nil
		}
		return now, err
	}}
}

// claimTimes shows the times of the claim.
type claimTimes struct {
	*reference
	claimed sync.Map
}

func (s *claimTimes) Resume(ctx context.Context, c store.Claim) (store.Segments, store.Claimed, error) {
	segments, got, err := s.reference.Resume(ctx, c)
	if segments != nil {
		s.claimed.LoadOrStore(c.ID, got.Record)
	}
	return segments, got, err
}

func (s *claimTimes) Find(ctx context.Context, id store.ID) (store.Record, error) {
	r, err := s.reference.Find(ctx, id)
	if claimed, ok := s.claimed.Load(id); ok {
		r.CreatedAt, r.Deadline = claimed.(store.Record).CreatedAt, claimed.(store.Record).Deadline
	}
	return r, err
}

// neverRenews shows the lease that the record had first.
type neverRenews struct {
	*reference
	leases sync.Map
}

func (s *neverRenews) Find(ctx context.Context, id store.ID) (store.Record, error) {
	r, err := s.reference.Find(ctx, id)
	lease, _ := s.leases.LoadOrStore(id, r.LeaseUntil)
	r.LeaseUntil = lease.(time.Time)
	return r, err
}

// anyWindow seals in any window.
func anyWindow(tx *referenceTx, _ store.Claim) store.Segments {
	return faultySeal{tx, func(ctx context.Context, seal store.Seal) (time.Time, error) {
		seal.Window = store.Window{}
		return tx.Seal(ctx, seal)
	}}
}

// endsWithClaim opens its transactions with the context of the claim, as database/sql suggests.
type endsWithClaim struct{ *reference }

func (s endsWithClaim) Resume(ctx context.Context, c store.Claim) (store.Segments, store.Claimed, error) {
	return segmentFault{s.reference, func(tx *referenceTx, _ store.Claim) store.Segments {
		return faultySeal{tx, func(sealCtx context.Context, seal store.Seal) (time.Time, error) {
			if ctx.Err() != nil {
				return time.Time{}, errors.Join(store.ErrAborted, tx.Rollback())
			}
			return tx.Seal(sealCtx, seal)
		}}
	}}.Resume(ctx, c)
}

// locksFirst lets one claim of a key be judged at a time, and calls the others busy.
type locksFirst struct {
	*reference
	mu     sync.Mutex
	asking map[store.ID]int
}

func (s *locksFirst) Resume(ctx context.Context, c store.Claim) (store.Segments, store.Claimed, error) {
	s.mu.Lock()
	if s.asking == nil {
		s.asking = map[store.ID]int{}
	}
	s.asking[c.ID]++
	second := s.asking[c.ID] == 2
	s.mu.Unlock()
	if second {
		return nil, store.Claimed{Busy: true}, nil
	}
	return s.reference.Resume(ctx, c)
}

// asksWithLock holds the key for a question longer than the question lasts.
type asksWithLock struct {
	*reference
	asked sync.Map
}

func (s *asksWithLock) InFlight(ctx context.Context, id store.ID) (bool, error) {
	s.asked.Store(id, true)
	return s.reference.InFlight(ctx, id)
}

func (s *asksWithLock) Resume(ctx context.Context, c store.Claim) (store.Segments, store.Claimed, error) {
	if _, asked := s.asked.Load(c.ID); asked {
		return nil, store.Claimed{Busy: true}, nil
	}
	return s.reference.Resume(ctx, c)
}

// resumesAnyway lets an attempt run beside the one that is at work.
type resumesAnyway struct{ *reference }

func (s resumesAnyway) Resume(ctx context.Context, c store.Claim) (store.Segments, store.Claimed, error) {
	segments, got, err := s.reference.Resume(ctx, c)
	if !got.Won && err == nil {
		c.ID[len(c.ID)-1]++
		return s.reference.Resume(ctx, c)
	}
	return segments, got, err
}

type importsAnyway struct{ *reference }

func (s importsAnyway) Import(ctx context.Context, records []store.Record) (store.Imported, error) {
	done, err := s.reference.Import(ctx, records)
	if done == (store.Imported{}) {
		done.Added = len(records)
	}
	return done, err
}
