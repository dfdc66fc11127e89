package core_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// stripeSimulator answers as Stripe's payment intents do, as far as a reconciler depends on it: a key is deduplicated; the
// search lags behind, in what it finds and in what it says; the list does not; it comes in pages, the newest first.
type stripeSimulator struct {
	*httptest.Server
	now func() time.Time

	mu       sync.Mutex
	keys     map[string]int // index of the payment
	made     []madePayment
	status   string // of the next payment
	broken   time.Time
	failing  string // the path whose requests get 500
	pageSize int
	searches int
	lists    int
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
	s.broken = s.now()
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
		indexed := s.now().Sub(p.at) >= usualLag && (s.broken.IsZero() || p.at.Before(s.broken))
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
