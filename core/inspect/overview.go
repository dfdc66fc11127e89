package inspect

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// countLimit is how many operations the overview counts. Beyond it, it says "at least".
const countLimit = 20_000

// overviewPage is what the overview shows.
type overviewPage struct {
	Unknown, HalfDone sum
	Lines             []countLine
	AtLeast           bool
	Limit             int            // how many were counted at most
	NotKnown          int            // of HalfDone: those of routes that this release does not know
	Waiting           int            // of HalfDone: those that the service does not go on with by itself
	Flow              *flowView      // nil: the store did not answer
	Numbers           *numbersView   // nil: nobody counts, or it is not for this operator
	Instance          store.Instance // with Numbers
}

// sum is the operations of one state.
type sum struct {
	Mark    mark
	Count   int
	Age     time.Duration // of the oldest one
	Meaning string
	Link    string
}

// countLine is one line of the table by state and route.
type countLine struct {
	Mark             mark
	Method, Route    string
	Count, Hour, Day int
	Oldest           time.Time
	Age              time.Duration
	Link             string
}

func (v *request) overview() error {
	limit := countLimit
	counts, err := v.needSomebody(limit)
	if errors.Is(err, context.DeadlineExceeded) { // the store has a lot to do: fewer are better than none
		limit = countLimit / 20
		counts, err = v.needSomebody(limit)
	}
	if err != nil {
		return err
	}
	page := overviewPage{Limit: limit,
		Unknown: sum{Mark: unknown, Link: v.Prefix + "operations?state=unknown",
			Meaning: "Nobody knows whether these took effect. Each one waits for an operator or a reconciler."},
		HalfDone: sum{Mark: halfDone, Link: v.Prefix + "operations?state=half_done",
			Meaning: "Some of their steps are done, and nobody is at them. A repeat of the client goes on, or the service itself."},
	}
	slices.SortFunc(counts, func(a, b store.Count) int {
		return cmp.Or(a.Oldest.Compare(b.Oldest), cmp.Compare(a.Route, b.Route))
	})
	for _, c := range counts {
		total, state := &page.Unknown, "unknown"
		if c.HalfDone {
			total, state = &page.HalfDone, "half_done"
		}
		if c.HalfDone {
			switch o := v.ops.Outlook(store.Record{Method: c.Method, Route: c.Route}); {
			case !o.Known:
				page.NotKnown += c.Count
			case !o.Resumed:
				page.Waiting += c.Count
			}
		}
		age := c.Now.Sub(c.Oldest)
		total.Count, total.Age = total.Count+c.Count, max(total.Age, age)
		page.Lines = append(page.Lines, countLine{total.Mark, c.Method, c.Route, c.Count, c.Hour, c.Day, c.Oldest, age,
			v.Prefix + "operations?" + url.Values{"state": {state}, "route": {c.Method + " " + c.Route}}.Encode()})
	}
	page.AtLeast = max(page.Unknown.Count, page.HalfDone.Count) >= limit
	page.Flow = v.flow()
	if v.Numbers != nil && v.operator.Supervises() { // they count the commands of every tenant (S-5)
		page.Numbers, page.Instance = v.Numbers.view(), v.Module.Instance()
	}
	return v.show(http.StatusOK, "overview", "Overview", "overview", page)
}

// needSomebody counts the oldest operations of each state, up to limit. Each state is counted by itself: otherwise many
// unknown operations would make it look as if there were no half-done ones.
func (v *request) needSomebody(limit int) ([]store.Count, error) {
	unknown, err := v.operator.Count(v.r.Context(), store.Query{Unknown: true, Limit: limit})
	if err != nil {
		return nil, err
	}
	halfDone, err := v.operator.Count(v.r.Context(), store.Query{HalfDone: true, Limit: limit})
	return append(unknown, halfDone...), err
}

// numbersView is this instance's last hour.
type numbersView struct {
	Rows []numberRow
	Bars []bar
	Top  int       // the most attempts of a minute
	From time.Time // when this instance has begun to count

	Repeated   []repeat
	MaxRepeats int
}

// numberRow is a number with its name in plain words.
type numberRow struct {
	Name, Text string
	Count      int
	Warns      bool // it deserves attention
}

// bar is one minute of the chart, in its units: 10 by minute, 60 high.
type bar struct{ X, Y, Height, WarnY, WarnHeight int }

// named are the events that the overview counts, in its order.
var named = []struct {
	kind core.EventKind
	text string
}{
	{core.EventClaimed, "attempts began"},
	{core.EventCompleted, "answers were recorded"},
	{core.EventReplayed, "repeats got the recorded answer"},
	{core.EventRefused, "requests were refused"},
	{core.EventRolledBack, "attempts were rolled back"},
	{core.EventFreed, "attempts ended with proof that nothing was applied"},
	{core.EventYielded, "attempts wait for a repeat to go on"},
	{core.EventSettled, "operations were settled"},
	{core.EventSettleRefused, "settlements were refused"},
	{core.EventRetried, "operations were tried again by an operator's word"},
	{core.EventGivenUp, "operations were given up by an operator"},
	{core.EventKeysRefused, "times keys made before a moment were refused"},
	{core.EventMarked, "times operations that the database has lost were marked"},
	{core.EventResumed, "operations were gone on with in the background"},
	{core.EventReconciled, "operations were settled by the reconciler"},
	{core.EventAnswerRead, "answers were read by operators"},
	{core.EventUnknown, "attempts ended with an unknown outcome"},
	{core.EventUnconfirmed, "answers could not be confirmed as recorded"},
	{core.EventLeaseLost, "attempts lost their lease"},
	{core.EventStale, "attempts were refused after a settlement or takeover"},
	{core.EventOverdue, "attempts were rolled back, or their streamed answers cut off, at their deadline"},
	{core.EventAbandoned, "attempts lost their request to another one"},
	{core.EventFailed, "calls of the store, or of the app's functions, failed"},
	{core.EventClockSkew, "times the clocks were too far apart"},
	{core.EventSuspectedDuplicate, "commands came again under a new key"},
	{core.EventNotAppliedRefused, "declarations of not applied did not count"},
	{core.EventWriteRefused, "attempts had a statement that was refused"},
	{core.EventTransactionUnused, "successes wrote nothing through their transaction"},
	{core.EventStatementFailed, "refusals had a statement that failed"},
	{core.EventRouteUnknown, "times operations of an unknown route were found"},
	{core.EventWouldReplay, "repeats ran in shadow that would have got the recorded answer"},
	{core.EventWouldRefuse, "requests ran in shadow that would have been refused"},
	{core.EventShadowed, "routes are in shadow"},
}

const chartHeight = 60

func (n *Numbers) view() *numbersView {
	sums, attempts, warnings := n.lastHour()
	v := &numbersView{From: n.began, Repeated: n.mostRepeated(), MaxRepeats: maxRepeats}
	for i, e := range named {
		if i < 4 || sums[e.kind] > 0 { // the first ones also where they are 0: so a reader knows what is counted
			v.Rows = append(v.Rows, numberRow{string(e.kind), e.text, sums[e.kind], e.kind.IsWarning()})
		}
	}
	v.Top = max(slices.Max(attempts[:]), slices.Max(warnings[:]))
	for i := range minutes {
		b := bar{X: 10 * i}
		if v.Top > 0 {
			b.Height = (attempts[i]*chartHeight + v.Top - 1) / v.Top
			b.WarnHeight = (warnings[i]*chartHeight + v.Top - 1) / v.Top
		}
		b.Y, b.WarnY = chartHeight-b.Height, chartHeight-b.WarnHeight
		v.Bars = append(v.Bars, b)
	}
	return v
}
