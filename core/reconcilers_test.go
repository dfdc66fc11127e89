package core_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/storetest"
)

// What the reconciler of the Stripe example says, by what the provider shows and by how long ago it was.
//
// CONTRACT X-7, T-4
func TestStripeReconciler(t *testing.T) {
	const notYet = ""
	tests := map[string]struct {
		after  time.Duration
		status string // of the payment; "" is none
		change func(s *stripeSimulator)
		want   string // of the decision; notYet is none, "error" an error
		lists  int
	}{
		"the search lags":             {after: 80 * time.Second, status: "succeeded", want: notYet},
		"the search finds it":         {after: 2 * time.Minute, status: "succeeded", want: "201"},
		"declined":                    {after: 2 * time.Minute, status: "requires_payment_method", want: "402"},
		"canceled":                    {after: 2 * time.Minute, status: "canceled", want: "402"},
		"processing":                  {after: 2 * time.Hour, status: "processing", want: notYet},
		"needs the customer":          {after: 24 * time.Hour, status: "requires_action", want: notYet},
		"a status nobody knows":       {after: 24 * time.Hour, status: "novel", want: notYet},
		"not there, early":            {after: 59 * time.Minute, want: notYet},
		"not there, late":             {after: 2 * time.Hour, want: "not applied", lists: 1},
		"the search is broken, early": {after: 50 * time.Minute, status: "succeeded", change: breakSearch, want: notYet},
		"the search is broken, late":  {after: 2 * time.Hour, status: "succeeded", change: breakSearch, want: "201", lists: 1},
		"on the third page of the list": {after: 2 * time.Hour, status: "succeeded", change: func(s *stripeSimulator) {
			breakSearch(s)
			s.pageSize = 3
			for i := range 8 { // the list begins with the newest
				s.made = append(s.made, madePayment{at: s.now(), paymentIntent: paymentIntent{
					ID: "pi_of_others_" + strconv.Itoa(i), Created: s.now().Unix() + 1, Status: "succeeded"}})
			}
		}, want: "201", lists: 3},
		"the search fails": {after: 2 * time.Hour, change: failingAt("/v1/payment_intents/search"), want: "error"},
		"the list does not show it all": {after: 2 * time.Hour, status: "succeeded", change: func(s *stripeSimulator) {
			breakSearch(s)
			s.pageSize = 0
		}, want: "error", lists: 1},
		"what the search says is old": {after: 2 * time.Minute, status: "processing", change: func(s *stripeSimulator) {
			s.made[0].Status, s.made[0].before, s.made[0].changed = "succeeded", "processing", s.now().Add(2*time.Minute)
		}, want: "201"},
		"the payment cannot be read": {after: 2 * time.Minute, status: "succeeded", change: failingAt("/v1/payment_intents/pi_1"), want: "error"},
		"there are two": {after: 2 * time.Minute, status: "succeeded", change: func(s *stripeSimulator) {
			s.made = append(s.made, s.made[0])
		}, want: "error"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var clock storetest.Clock
			provider := newStripeSimulator(clock.Now)
			defer provider.Close()
			operation := store.Record{Ticket: store.Ticket{ID: store.ID{7}}, CreatedAt: clock.Now(), Deadline: clock.Now()}
			if test.status != "" {
				provider.made = append(provider.made, madePayment{at: clock.Now(), changed: clock.Now(), before: test.status,
					paymentIntent: paymentIntent{ID: "pi_1", Status: test.status, Created: clock.Now().Unix(),
						Metadata: map[string]string{"operation": operation.ID.String()}}})
			}
			if test.change != nil {
				test.change(provider)
			}
			clock.Advance(t, test.after)
			operation.Now = clock.Now()
			decision, err := stripe{provider.URL}.reconcile(t.Context(), operation)
			got := notYet
			switch {
			case err != nil:
				got = "error"
			case decision != nil && !decision.Applied:
				got = "not applied"
			case decision != nil:
				got = strconv.Itoa(decision.Answer.Status)
			}
			require.Equal(t, test.want, got)
			require.Equal(t, test.lists, provider.lists)
		})
	}
}

func breakSearch(s *stripeSimulator) { s.broken = s.now() }

func failingAt(path string) func(s *stripeSimulator) {
	return func(s *stripeSimulator) { s.failing = path }
}

// Two payments under one reference, which a dedup key makes impossible, are no answer.
func TestAdyenReconcilerWantsOnePayment(t *testing.T) {
	operation := store.Record{Ticket: store.Ticket{ID: store.ID{7}}}
	a := &authorisations{said: map[string]map[string]notification{operation.ID.String(): {
		"PSP1": {PspReference: "PSP1", Success: "true"}, "PSP2": {PspReference: "PSP2", Success: "false"},
	}}}
	decision, err := a.reconcile(t.Context(), operation)
	require.Error(t, err)
	require.Nil(t, decision)
}
