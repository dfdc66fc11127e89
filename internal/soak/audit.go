package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/auth19/idem/internal/harness"
)

// audit compares the answers that clients got with the effects.
func (s *soak) audit(ctx context.Context) error {
	all, err := s.effects(ctx)
	if err != nil {
		return err
	}
	for n := range s.refunds { // made before the clients came
		delete(all, intent{Caller: customer(n), Key: preparation(n)}.Operation())
	}
	for n := range s.told.begun() {
		i := s.intent(n)
		e := all[i.Operation()]
		if e == nil {
			e = &effects{}
		}
		delete(all, i.Operation())
		for what, text := range e.judge(i, s.told.of(n).end) {
			s.findings.add(what, i.Operation(), fmt.Sprintf("%v: %s", i, text))
		}
	}
	for operation, e := range all {
		s.findings.add(duplicate, operation, fmt.Sprintf("nobody has asked for it: %+v", *e))
	}
	return nil
}

// tables has the table of each kind's rows.
var tables = map[harness.Kind]string{payment: "payments", refund: "refunds", payout: "payouts"}

// judge returns what is wrong with the effects of an intent. A row counts once for each transaction that tried to insert it.
func (e effects) judge(i intent, end end) map[wrong]string {
	found := map[wrong]string{}
	runs, booked := e.carriedOut[tables[i.Kind]], e.carriedOut["ledger"]
	text := fmt.Sprintf("carried out %d times, booked %d times, in the ledger: %v; charged %d times, in %d calls", runs, booked,
		e.entries, e.charges, e.calls)

	mostCharges := 1
	if i.Kind == payment {
		mostCharges = 0
	}
	if i.EndsItself() { // a repeat may insert its rows again after its key became free; one row stays
		runs, booked = min(runs, 1), min(booked, 1)
	}
	if runs > 1 || booked > 1 || len(e.entries) > 1 || e.charges > mostCharges || i.Kind == payout && e.calls > 1 {
		found[duplicate] = text
	}
	if slices.ContainsFunc(e.entries, func(entry string) bool { return entry != string(i.Kind)+" "+i.Amount }) {
		found[contradiction] = "something else was booked: " + text
	}
	switch {
	case i.NeverEnds():
		if runs+booked+len(e.entries)+e.charges > 0 {
			found[contradiction] = "undone every time: " + text
		}
	case end == open:
		found[loss] = "came to no end: " + text
	case end == unknown: // the provider is charged before the booking
		if len(e.entries) > e.charges && !i.EndsItself() {
			found[contradiction] = "booked without a charge: " + text
		}
	case i.IsStuck(): // as the operator settled it: charged by the provider, and not booked
		if e.charges != 1 || len(e.entries) > 0 {
			found[contradiction] = "settled: " + text
		}
	case i.Method == "pm_declined":
		if len(e.entries)+e.charges > 0 {
			found[contradiction] = "refused: " + text
		}
	case runs == 0 || booked == 0 || len(e.entries) == 0 || e.charges < mostCharges:
		found[loss] = text
	}
	return found
}
