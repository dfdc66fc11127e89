package inspect

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// moment is one thing in the life of an operation.
type moment struct {
	At     time.Time // zero: the store does not keep when
	Class  string    // "good", "bad", "done", "off" or ""
	Title  string
	Lines  []string // more about it
	Quotes []quote  // what people have written
	Keys   []quote  // what a provider knows the call by
	Result string   // of a step; only where it was asked for
	Later  bool     // it lies ahead
}

// quote is a text with its name.
type quote struct{ Name, Text string }

// timeline tells the life of an operation in the order in which it happened. What happened without a time stands where it
// must have been.
func timeline(life operations.Life) []moment {
	rec := life.Record
	// A settlement raises the fence, and so does the next life of the key. So the settlement of this life has its fence.
	var earlier, settled, pushed []store.SettlementRecord
	last := rec.Fence // of the last attempt
	for _, s := range life.History {
		switch {
		case s.AfterFence == s.BeforeFence: // an intervention
			pushed = append(pushed, s)
		case s.AfterFence == rec.Fence && !s.Marked():
			settled, last = append(settled, s), s.BeforeFence
		default:
			earlier = append(earlier, s)
		}
	}
	var mark []store.SettlementRecord // of this life
	if n := len(earlier); n > 0 && earlier[n-1].Marked() && earlier[n-1].AfterFence == last {
		earlier, mark = earlier[:n-1], earlier[n-1:]
	}
	first := max(1, last-int64(max(1, rec.Attempts))+1)

	moments := make([]moment, 0, 8)
	for _, s := range earlier {
		m := settlementMoment(s)
		m.Lines = append(m.Lines, "That was an earlier operation with the same key.")
		moments = append(moments, m)
	}
	if mark != nil { // when it ran, and how it ended, nobody knows
		moments = append(moments, settlementMoment(mark[0]))
		moments = append(moments, noteMoments(rec, life.Notes)...)
		for _, s := range settled {
			moments = append(moments, settlementMoment(s))
		}
		return append(moments, retentionMoments(rec)...)
	}
	claimed := moment{At: rec.CreatedAt, Title: "Claimed", Lines: []string{
		fmt.Sprintf("The first attempt began, with fence %d.", first)}}
	// Each attempt and each settlement has raised the fence. A sweep may have forgotten earlier ones.
	if freed := int(first) - 1 - len(earlier); freed == 1 {
		claimed.Lines = append(claimed.Lines, "An attempt before it had ended, and the key was free again.")
	} else if freed > 1 {
		claimed.Lines = append(claimed.Lines, fmt.Sprintf("%d attempts before it had ended, and the key was free again.", freed))
	}
	moments = append(moments, claimed)
	fence := first
	for _, s := range life.Steps {
		for ; fence < s.Fence; fence++ {
			moments = append(moments, takeover(fence+1, fence+2-first))
		}
		moments = append(moments, stepMoment(rec.ID, s))
	}
	for ; fence < last; fence++ {
		moments = append(moments, takeover(fence+1, fence+2-first))
	}
	if len(settled) > 0 {
		moments = append(moments, endedBefore(rec, settled[0])...)
	} else {
		moments = append(moments, endMoments(rec)...)
	}
	moments = append(moments, noteMoments(rec, life.Notes)...)
	for _, s := range slices.Concat(pushed, settled) {
		moments = append(moments, settlementMoment(s))
	}
	moments = append(moments, retentionMoments(rec)...)
	inOrder(moments, rec.Now)
	return moments
}

func takeover(fence, attempt int64) moment {
	return moment{Title: "Taken over", Lines: []string{fmt.Sprintf(
		"Attempt %d went on, with fence %d. From then on nothing of the attempt before it could be recorded. When that was, the "+
			"record does not say.", attempt, fence)}}
}

// unread says why an answer or the result of a step is not shown; "" if it is.
func unread(why store.Unread) string {
	switch why {
	case store.Unreadable:
		return "this instance cannot read it"
	case store.Lost:
		return "it cannot be read any more: its sealing key is lost"
	}
	return ""
}

func stepMoment(id store.ID, s store.StepRecord) moment {
	m := moment{At: s.StartedAt, Title: "Step " + s.Name, Class: "good", Result: string(s.Result)}
	kind := "A database step"
	if s.Kind == store.ProviderStep {
		kind = "A call to a provider"
		m.Keys = bothForms("Key at the provider", id.DeriveStep(s.Name))
	}
	switch {
	case !s.Finished:
		m.Class = "bad"
		end := "No result was recorded: nobody knows whether it took effect."
		if s.Kind == store.DatabaseStep {
			end = "It did not commit."
		}
		m.Lines = []string{fmt.Sprintf("%s, started with fence %d. %s", kind, s.Fence, end)}
	case s.FinishedAt.IsZero():
		m.Lines = []string{fmt.Sprintf("%s, with fence %d. Its result was recorded.", kind, s.Fence)}
	default:
		m.Lines = []string{fmt.Sprintf("%s, with fence %d. Its result was recorded at %s, after %s.", kind, s.Fence,
			utc(s.FinishedAt), span(s.FinishedAt.Sub(s.StartedAt)))}
	}
	if why := unread(s.Unread); why != "" {
		m.Lines = append(m.Lines, "The result is not shown: "+why+".")
	}
	return m
}

// What is known of an attempt whose outcome is not.
func leaseRanOut(rec store.Record) moment {
	return moment{At: rec.LeaseUntil, Title: "The lease ran out", Class: "bad",
		Lines: []string{"Nobody renewed it: the process was killed, or could not reach the store."}}
}

func outcomeUnknown(line string) moment {
	return moment{Title: "Outcome unknown", Class: "bad", Lines: []string{line}}
}

const (
	committedItself = "The handler committed the transaction itself, in the middle of the attempt."
	endedUnproven   = "The attempt ended without proof of what it did"
)

// unproven is the end of the attempt with this fence, which has proven nothing.
func unproven(rec store.Record, fence int64) moment {
	ends := rec.AttemptEnds()
	if len(ends) == 0 || ends[len(ends)-1].Fence != fence {
		return outcomeUnknown(endedUnproven + ": by an error, a panic, a deadline, or too many attempts.")
	}
	last := ends[len(ends)-1]
	m := outcomeUnknown(endedUnproven + ": " + last.String() + ".")
	m.At = last.At
	return m
}

// endedBefore is how the last attempt of a settled operation ended: a settlement changes neither lease nor deadline.
func endedBefore(rec store.Record, s store.SettlementRecord) []moment {
	end := unproven(rec, s.BeforeFence)
	switch {
	case s.BeforeStored == store.Running && rec.Recovery == store.Rollback:
		end = outcomeUnknown(committedItself)
	case s.BeforeStored == store.Running:
		end = leaseRanOut(rec)
	}
	return []moment{end, deadlinePassed(rec)}
}

func deadlinePassed(rec store.Record) moment {
	m := moment{At: rec.Deadline, Title: "The attempt's deadline passed",
		Lines: []string{"Since then it can be settled, if it is unknown."}}
	if rec.Now.Before(rec.Deadline) {
		m.Title, m.Lines[0] = "The attempt's deadline", "The handler may be at work until then. It cannot be settled before."
	}
	return m
}

// endMoments is how the last attempt ended.
func endMoments(rec store.Record) []moment {
	switch {
	case rec.State() == store.Unknown && rec.Stored == store.Unknown:
		return []moment{unproven(rec, rec.Fence), deadlinePassed(rec)}
	case rec.State() == store.Unknown && rec.Recovery == store.Rollback:
		return []moment{outcomeUnknown(committedItself), deadlinePassed(rec)}
	case rec.State() == store.Unknown || rec.HalfDone():
		return []moment{leaseRanOut(rec), deadlinePassed(rec)}
	case rec.Stored == store.Completed || rec.Stored == store.Expired:
		class := "good"
		if rec.Answer.Status >= http.StatusBadRequest {
			class = "done"
		}
		return []moment{{Title: fmt.Sprintf("Answered %d %s", rec.Answer.Status, http.StatusText(rec.Answer.Status)),
			Class: class, Lines: []string{"The answer was recorded before it was sent."}}}
	case rec.Stored == store.Free:
		return []moment{{Title: "Freed", Class: "off",
			Lines: []string{"The attempt ended with proof that nothing was applied. The key is free."}}}
	}
	return []moment{{At: rec.LeaseUntil, Title: "The lease ends, unless it is renewed"},
		{At: rec.Deadline, Title: "The attempt's deadline"}}
}

func settlementMoment(s store.SettlementRecord) moment {
	m := moment{At: s.At, Title: "Settled as applied", Class: "good", Quotes: []quote{{"Who", s.Who}, {"Why", s.Why}}}
	end := fmt.Sprintf("Repeats get the answer %d that was recorded then.", s.AfterStatus)
	switch s.AfterState {
	case store.Free:
		m.Title, m.Class, end = "Settled as not applied", "off", "The key was free again."
	case store.Running:
		m.Title, m.Class, end = "Tried again by an operator's word", "done", "Its pause was over."
	case store.Unknown:
		m.Title, m.Class, end = "Given up by an operator", "bad", "It can be settled."
		if s.Marked() {
			m.Title, end = "Marked", "A provider knows it, and the database had lost it: it is unknown, and can be settled."
		}
	}
	if s.Undone != "" {
		m.Quotes = append(m.Quotes, quote{"Undone", s.Undone})
	}
	m.Lines = []string{fmt.Sprintf("Before: %s, fence %d. After: %s, fence %d. %s", s.BeforeState, s.BeforeFence, s.AfterState,
		s.AfterFence, end)}
	return m
}

// retentionMoments is what becomes of an answer.
func retentionMoments(rec store.Record) []moment {
	if rec.ExpiresAt.IsZero() || rec.Stored == store.Free {
		return nil
	}
	moments := []moment{{At: rec.ExpiresAt, Class: "off", Title: "The answer is kept until then",
		Lines: []string{"After that a repeat is refused, and is not run again."}}}
	if rec.PurgeAt.After(rec.ExpiresAt) {
		moments = append(moments, moment{At: rec.PurgeAt, Class: "off", Title: "The key is refused until then"})
	}
	return moments
}

// inOrder sorts by time. What has no time stays behind what it stood behind.
func inOrder(moments []moment, now time.Time) {
	type placed struct {
		moment
		at time.Time
	}
	all := make([]placed, len(moments))
	var at time.Time
	for i, m := range moments {
		if !m.At.IsZero() {
			at = m.At
		}
		m.Later = m.At.After(now)
		all[i] = placed{m, at}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	for i := range all {
		moments[i] = all[i].moment
	}
}
