package inspect

import (
	"slices"

	"github.com/auth19/idem/core/store"
)

// flowHours is how many hours the overview looks back.
const flowHours = 24

// flowView is what came and what was settled, hour by hour.
type flowView struct {
	Hours int
	Last  store.Hour // the last hour
	All   store.Hour // all of them
	Top   int        // the most of one kind in an hour
	Bars  []flowBar
}

// flowBar is one hour of the chart, the oldest first: 25 wide, 60 high.
type flowBar struct{ X, Next, CameY, Came, SettledY, Settled int }

// flow is nil if the store does not answer: the overview is of use without it.
func (v *request) flow() *flowView {
	hours, err := v.operator.Flow(v.r.Context(), flowHours)
	if err != nil {
		v.operator.Failed(v.r.Context(), err)
		return nil
	}
	f := &flowView{Hours: flowHours, Last: hours[0]}
	for _, h := range hours {
		f.All.Came, f.All.Settled, f.Top = f.All.Came+h.Came, f.All.Settled+h.Settled, max(f.Top, h.Came, h.Settled)
	}
	if f.Top == 0 {
		return f
	}
	height := func(n int) int { return (n*chartHeight + f.Top - 1) / f.Top }
	for i, h := range slices.Backward(hours) {
		x := 25 * (flowHours - 1 - i)
		came, settled := height(h.Came), height(h.Settled)
		f.Bars = append(f.Bars, flowBar{x + 2, x + 13, chartHeight - came, came, chartHeight - settled, settled})
	}
	return f
}
