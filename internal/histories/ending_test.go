package histories

import (
	"testing"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
)

// ends lets the handlers of all requests so far end their own transactions.
func (s *story) ends() *story {
	for _, o := range s.ops {
		o.Ends = o.Kind == Request
	}
	return s
}

// lateBy lets time pass.
func (s *story) lateBy(d time.Duration) *story {
	s.now += int64(d)
	return s
}

// ended is a payment whose handler has ended its own transaction.
func ended() *story { return tell(core.Rollback).sent("a", parked) }

// halfDone is a refund that no attempt could end.
func halfDone() *story { return tell(core.Resume).sent("a", internalError).sent("a", internalError) }

// again402 is the replay of a decline.
var again402 = &Answer{Status: 402, Result: wire.ResultReused, Body: "no"}

// inTheWay is the answer if a row of another command is there already. The step has not finished, so it is no final answer.
var inTheWay = &Answer{Status: 409, Code: otherOperation, Result: wire.ResultUnknown}

var endings = map[string]told{
	"ended by its handler":      {true, ended().sent("a", parked).ends().audited(1, 0)},
	"ended, nothing left":       {true, ended().ends().audited(0, 0)},
	"ended, booked twice":       {false, ended().ends().audited(2, 0)},
	"ended, and charged":        {false, ended().ends().audited(1, 1)},
	"ended, and answered":       {false, tell(core.Rollback).sent("a", created("1")).ends()},
	"ended, answered later":     {false, ended().sent("a", reused("1")).ends()},
	"ended, and run again":      {false, ended().ends().sent("b", created("1"))},
	"ended, and in flight":      {false, ended().sent("a", inFlight).ends()},
	"ended, for another":        {true, ended().ends().sent("b", keyReused)},
	"ended, and settled":        {true, ended().settled(byHand, accepted).sent("a", reused("by hand")).ends().audited(1, 0)},
	"ended, freed, and again":   {true, ended().settled(free, accepted).sent("a", parked).ends().audited(1, 0)},
	"ended, freed, and another": {true, ended().ends().settled(free, accepted).sent("b", created("1")).audited(1, 0)},
	"ended, freed, refused":     {true, ended().settled(free, accepted).sent("b", declined).sent("b", again402).ends().audited(1, 0)},
	"ended, lost, and answered": {false, tell(core.Rollback).sent("a", lost).sent("a", reused("1")).ends()},
	"ended, and killed":         {true, tell(core.Rollback).sent("a", lost).sent("a", parked).ends().audited(1, 0)},
	"ended, killed, and free":   {true, tell(core.Rollback).sent("a", lost).ends().sent("b", created("1")).audited(1, 0)},
	"seen while it runs":        {true, tell(core.Rollback).during("a", parked, func() {}).sent("a", parked).ends()},

	"half-done":                    {true, halfDone().sent("a", inFlight).sent("a", created("1")).audited(1, 1)},
	"half-done, for ever":          {true, halfDone().audited(0, 1)},
	"half-done, charged twice":     {false, halfDone().audited(0, 2)},
	"half-done, parked":            {true, halfDone().sent("a", parked).sent("a", parked).audited(0, 1)},
	"half-done, parked, resumed":   {false, halfDone().sent("a", parked).sent("a", created("1"))},
	"half-done, parked, settled":   {true, halfDone().sent("a", parked).settled(byHand, accepted).sent("a", reused("by hand")).audited(0, 1)},
	"half-done, parked, freed":     {true, halfDone().sent("a", parked).settled(free, accepted).sent("a", created("1")).audited(1, 1)},
	"half-done, settled at once":   {true, halfDone().settled(byHand, accepted).sent("a", reused("by hand"))},
	"half-done, not parked":        {true, halfDone().settled(byHand, late).sent("a", created("1")).audited(1, 1)},
	"half-done, freed, a row":      {true, halfDone().sent("a", parked).settled(free, accepted).sent("b", inTheWay).audited(0, 1)},
	"half-done, a final row":       {false, halfDone().sent("a", parked).settled(free, accepted).sent("b", refused(409, otherOperation))},
	"a row of nobody":              {false, halfDone().sent("a", inTheWay)},
	"a row is no end":              {false, halfDone().sent("a", parked).settled(free, accepted).sent("b", inTheWay).sent("b", reused("1"))},
	"half-done, by the app":        {true, halfDone().sent("a", reused("1")).sent("a", reused("1")).audited(1, 1)},
	"half-done, told, by the app":  {true, tell(core.Resume).sent("a", failed).aged().sent("a", reused("1")).audited(1, 1)},
	"by the app, declined":         {true, halfDone().sent("a", again402).audited(0, 0)},
	"by the app, charged twice":    {false, halfDone().sent("a", reused("1")).audited(1, 2)},
	"by the app, not charged":      {false, halfDone().sent("a", reused("1")).audited(0, 0)},
	"by the app, and again":        {false, halfDone().sent("a", reused("1")).sent("a", created("2"))},
	"by the app, two answers":      {false, halfDone().sent("a", reused("1")).sent("a", reused("2"))},
	"by the app, not settled":      {false, halfDone().sent("a", reused("1")).settled(byHand, accepted)},
	"by the app, and parked":       {false, halfDone().sent("a", reused("1")).sent("a", parked)},
	"by the app, for another":      {false, halfDone().sent("b", reused("1"))},
	"by the app, of nobody":        {false, tell(core.Resume).sent("a", reused("1"))},
	"by the app, only refused":     {false, tell(core.Resume).sent("a", away).sent("a", reused("1"))},
	"by the app, parked before":    {false, halfDone().sent("a", parked).sent("a", reused("1"))},
	"by the app, freed before":     {false, halfDone().sent("a", parked).settled(free, accepted).sent("a", reused("1"))},
	"by the app, of a payout":      {false, tell(core.Park).sent("a", internalError).sent("a", reused("1"))},
	"by the app, in its lease":     {false, tell(core.Resume).during("a", created("1"), func() {}).sent("a", reused("2"))},
	"by the app, parked under way": {true, halfDone().lateBy(lease).sent("a", parked).sent("a", reused("1")).audited(1, 1)},
	"by the app, a lease later":    {true, tell(core.Resume).during("a", created("1"), func() {}).lateBy(lease).sent("a", reused("1"))},
	"by the app, another's row":    {false, halfDone().sent("a", parked).settled(free, accepted).sent("b", inTheWay).lateBy(lease).sent("b", reused("1"))},
	"by the app, while it slept": {true, tell(core.Resume).slowly("a", internalError, func(s *story) {
		s.now += int64(lease)
		s.sent("a", reused("1"))
	})},
	"done, and parked": {false, tell(core.Resume).sent("a", created("1")).sent("a", parked)},
}

// CONTRACT
func TestModelOfWhatComesToNoEnd(t *testing.T) { tellApart(t, endings) }
