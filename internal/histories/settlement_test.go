package histories

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
)

// settled adds a settlement, with the answer that it gives to repeats; nil frees the key.
func (s *story) settled(to, answer *Answer) *story {
	s.add(Op{Kind: Settle, Settled: to, Answer: answer})
	return s
}

// twice sends the last operation a second time; nobody sees that answer.
func (s *story) twice() *story {
	s.ops[len(s.ops)-1].Twice = true
	return s
}

// slowly lets a request take as long as a lease.
func (s *story) slowly(command string, a *Answer, f func(s *story)) *story {
	s.during(command, a, func() {
		f(s)
		s.now += int64(lease)
	})
	return s
}

var (
	free     *Answer // a settlement as not applied
	accepted = &Answer{Status: 200, Result: wire.ResultCreated}
	again    = &Answer{Status: 200, Result: wire.ResultReused}
	late     = refused(409, core.CodeNotSettleable)
	absentee = refused(404, core.CodeNotFound)
	byHand   = created("by hand")
)

// stuck is a payout whose outcome is unknown.
func stuck() *story { return tell(core.Park).sent("a", failed).sent("a", parked) }

var settlements = map[string]told{
	"settled":                 {true, stuck().settled(byHand, accepted).sent("a", reused("by hand")).audited(0, 1)},
	"settled, and applied":    {true, stuck().settled(byHand, accepted).audited(1, 1)},
	"settled, and booked":     {false, stuck().settled(byHand, accepted).audited(1, 0)},
	"settled, charged twice":  {false, stuck().settled(byHand, accepted).audited(0, 2)},
	"settled after its lease": {true, tell(core.Park).sent("a", lost).settled(byHand, accepted).sent("a", reused("by hand"))},
	"told before its client":  {true, tell(core.Park).sent("a", lost).settled(byHand, again).sent("a", reused("by hand"))},
	"settled twice":           {false, stuck().settled(byHand, accepted).settled(created("otherwise"), accepted)},
	"settled twice alike":     {false, stuck().settled(byHand, accepted).settled(byHand, accepted)},
	"settled, a second late":  {true, stuck().settled(byHand, accepted).settled(free, late).sent("a", reused("by hand"))},
	"settled, another answer": {false, stuck().settled(byHand, accepted).sent("a", reused("1"))},
	"settled, still unknown":  {false, stuck().settled(byHand, accepted).sent("a", parked)},
	"settled, and run again":  {false, stuck().settled(byHand, accepted).sent("a", created("1"))},
	"settled for another":     {true, stuck().settled(byHand, accepted).sent("b", keyReused)},
	"settled, and expired":    {true, stuck().settled(byHand, accepted).expired(true).sent("a", tooLate)},
	"refused, and settled":    {false, stuck().settled(byHand, late).sent("a", reused("by hand"))},

	"freed":                     {true, stuck().settled(free, accepted).sent("a", created("1")).audited(1, 1)},
	"freed, and nothing done":   {true, stuck().settled(free, accepted).audited(0, 1)},
	"freed, for another":        {true, stuck().settled(free, accepted).sent("b", created("2")).audited(1, 1)},
	"freed, another is refused": {true, stuck().settled(free, accepted).sent("b", declined).audited(0, 1)},
	"freed, charged twice":      {false, stuck().settled(free, accepted).sent("a", created("1")).audited(1, 2)},
	"freed, not booked":         {false, stuck().settled(free, accepted).sent("a", created("1")).audited(0, 1)},
	"freed, run twice":          {false, stuck().settled(free, accepted).sent("a", created("1")).sent("a", created("2"))},
	"freed, stuck, and freed":   {true, stuck().settled(free, accepted).sent("a", failed).settled(free, accepted)},
	"freed twice":               {false, stuck().settled(free, accepted).settled(free, accepted)},
	"freed, still unknown":      {false, stuck().settled(free, accepted).sent("a", parked)},

	"done, and settled":     {false, tell(core.Park).sent("a", created("1")).settled(byHand, accepted)},
	"done, and freed":       {false, tell(core.Park).sent("a", created("1")).settled(free, accepted)},
	"expired, and freed":    {false, tell(core.Park).sent("a", created("1")).expired(true).settled(free, accepted)},
	"done, and not settled": {true, tell(core.Park).sent("a", created("1")).settled(free, late).sent("a", reused("1"))},
	"free, and settled":     {false, tell(core.Park).settled(byHand, accepted)},
	"free, and not there":   {true, tell(core.Park).settled(byHand, absentee).sent("a", created("1"))},
	"done, and not there":   {false, tell(core.Park).sent("a", created("1")).settled(byHand, absentee)},
	"a payment is settled":  {false, tell(core.Rollback).sent("a", lost).settled(byHand, accepted)},
	"a refund is settled":   {false, tell(core.Resume).sent("a", created("1")).settled(byHand, accepted)},
	"settled, says nobody":  {false, stuck().settled(byHand, &Answer{Status: 201})},
	"in flight of its own":  {true, stuck().settled(byHand, inFlight).twice().sent("a", reused("by hand"))},

	"a lost settlement":            {true, stuck().settled(byHand, lost).sent("a", reused("by hand"))},
	"a lost one that never came":   {true, stuck().settled(byHand, lost).sent("a", parked)},
	"a lost one that comes late":   {true, stuck().settled(byHand, lost).sent("a", parked).sent("a", reused("by hand"))},
	"a lost one is no other":       {false, stuck().settled(byHand, lost).sent("a", reused("1"))},
	"a lost one, then another":     {true, stuck().settled(byHand, lost).settled(free, accepted).sent("a", created("1"))},
	"a lost one came, and another": {false, stuck().settled(byHand, lost).sent("a", reused("by hand")).settled(free, accepted)},
	"a lost one frees once":        {false, stuck().settled(free, lost).sent("a", created("1")).sent("a", created("2"))},
	"a lost one cannot free two":   {false, stuck().settled(free, lost).sent("b", failed).sent("b", parked).sent("a", created("1"))},
	"a doubled one comes later":    {true, stuck().settled(byHand, late).twice().sent("a", reused("by hand"))},
	"a doubled one is there once":  {false, stuck().settled(free, accepted).twice().sent("a", failed).sent("a", parked).sent("a", created("1"))},

	"doubled, the other one runs":   {true, tell(core.Park).sent("a", inFlight).twice().sent("a", reused("1")).audited(1, 1)},
	"doubled, rolled back, and run": {true, tell(core.Rollback).sent("a", internalError).twice().sent("a", reused("1")).audited(1, 0)},
	"doubled, and run twice":        {false, tell(core.Park).sent("a", created("1")).twice().sent("a", created("2"))},
	"doubled, booked twice":         {false, tell(core.Rollback).sent("a", created("1")).twice().audited(2, 0)},
	"doubled, another answer":       {false, tell(core.Park).sent("a", created("1")).twice().sent("a", reused("2"))},

	"settled under way": {true, tell(core.Park).slowly("a", reused("by hand"), func(s *story) {
		s.sent("a", parked).settled(byHand, accepted)
	})},
	"settled under way, and done": {false, tell(core.Park).slowly("a", created("1"), func(s *story) {
		s.sent("a", parked).settled(byHand, accepted)
	})},
	"freed under way": {true, tell(core.Park).slowly("a", parked, func(s *story) {
		s.sent("a", parked).settled(free, accepted).sent("a", created("1"))
	})},
	"freed under way, and done": {false, tell(core.Park).slowly("a", created("1"), func(s *story) {
		s.sent("a", parked).settled(free, accepted)
	})},
	"woke before it was settled": {false, tell(core.Park).slowly("a", created("1"), func(s *story) {
		s.sent("a", parked)
	}).settled(byHand, accepted)},
	"resumed by another": {true, tell(core.Resume).slowly("a", reused("1"), func(s *story) {
		s.sent("a", inFlight).sent("a", created("1"))
	})},
}

// CONTRACT
func TestModelOfSettlements(t *testing.T) { tellApart(t, settlements) }

// A store that is away for seconds leaves a dozen settlements without an answer. Whether each has arrived or not must not
// be a state of its own.
func TestModelOfManyLostSettlements(t *testing.T) {
	for name, answer := range map[string]func(i int) *Answer{
		"that free the key": func(int) *Answer { return free },
		"with answers":      func(i int) *Answer { return created(fmt.Sprint("by hand ", i)) },
		"of both kinds": func(i int) *Answer {
			if i%2 == 0 {
				return free
			}
			return created(fmt.Sprint("by hand ", i))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := stuck().sent("a", lost) // it may run again each time that the key is freed
			for i := range 20 {
				s.settled(answer(i), lost).sent("a", parked)
			}
			v := Check(s.settled(byHand, accepted).sent("a", reused("by hand")).history(), patience)
			require.Empty(t, v.TooLarge)
			require.Empty(t, v.Illegal)
		})
	}
}
