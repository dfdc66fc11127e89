package core_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
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

func breakSearch(s *stripeSimulator) { s.staleSince = s.now() }

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

// stripeSimulator answers as Stripe's payment intents do, as far as a reconciler depends on it: a key is deduplicated; the
// search lags behind, in what it finds and in what it says; the list does not; it comes in pages, the newest first.
type stripeSimulator struct {
	*httptest.Server
	now func() time.Time

	mu         sync.Mutex
	keys       map[string]int // index of the payment
	made       []madePayment
	status     string // of the next payment
	staleSince time.Time
	failing    string // the path whose requests get 500
	pageSize   int
	searches   int
	lists      int
}

type madePayment struct {
	paymentIntent
	at      time.Time
	changed time.Time // when its status became what it is
	before  string    // its status before that
}

// The search is usually this far behind.
const usualLag = 90 * time.Second

func newStripeSimulator(now func() time.Time) *stripeSimulator {
	s := &stripeSimulator{now: now, keys: map[string]int{}, status: "succeeded", pageSize: 100}
	routes := http.NewServeMux()
	routes.HandleFunc("POST /v1/payment_intents", s.create)
	routes.HandleFunc("GET /v1/payment_intents/search", s.search)
	routes.HandleFunc("GET /v1/payment_intents/{id}", s.read)
	routes.HandleFunc("GET /v1/payment_intents", s.list)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.failing != "" && strings.HasPrefix(r.URL.Path, s.failing) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		routes.ServeHTTP(w, r)
	}))
	return s
}

// breakSearch stops the search's index: nothing that is made from now on is found.
func (s *stripeSimulator) breakSearch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.staleSince = s.now()
}

func (s *stripeSimulator) payments() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.made)
}

func (s *stripeSimulator) create(w http.ResponseWriter, r *http.Request) {
	at, known := s.keys[r.Header.Get("Idempotency-Key")]
	if !known {
		at = len(s.made)
		s.keys[r.Header.Get("Idempotency-Key")] = at
		s.made = append(s.made, madePayment{at: s.now(), changed: s.now(), before: s.status, paymentIntent: paymentIntent{
			ID: "pi_" + strconv.Itoa(at+1), Status: s.status, Created: s.now().Unix(),
			Metadata: map[string]string{"operation": r.FormValue("metadata[operation]")},
		}})
	}
	_ = json.NewEncoder(w).Encode(s.made[at].paymentIntent)
}

func (s *stripeSimulator) search(w http.ResponseWriter, r *http.Request) {
	s.searches++
	wanted := strings.TrimSuffix(strings.TrimPrefix(r.FormValue("query"), "metadata['operation']:'"), "'")
	found := paymentIntents{Data: []paymentIntent{}}
	for _, p := range s.made {
		indexed := s.now().Sub(p.at) >= usualLag && (s.staleSince.IsZero() || p.at.Before(s.staleSince))
		if indexed && p.Metadata["operation"] == wanted {
			if s.now().Sub(p.changed) < usualLag {
				p.Status = p.before
			}
			found.Data = append(found.Data, p.paymentIntent)
		}
	}
	_ = json.NewEncoder(w).Encode(found)
}

func (s *stripeSimulator) read(w http.ResponseWriter, r *http.Request) {
	for _, p := range s.made {
		if p.ID == r.PathValue("id") {
			_ = json.NewEncoder(w).Encode(p.paymentIntent)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

func (s *stripeSimulator) list(w http.ResponseWriter, r *http.Request) {
	s.lists++
	since, _ := strconv.ParseInt(r.FormValue("created[gte]"), 10, 64)
	var page paymentIntents
	after := r.FormValue("starting_after")
	for _, p := range slices.Backward(s.made) {
		switch {
		case p.Created < since:
		case after != "":
			if p.ID == after {
				after = ""
			}
		case len(page.Data) == s.pageSize:
			page.HasMore = true
		default:
			page.Data = append(page.Data, p.paymentIntent)
		}
	}
	_ = json.NewEncoder(w).Encode(page)
}
