package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/storetest"
)

// stripe is a client of Stripe's API, or of one that is like it, as far as a payment and its reconciler need it.
type stripe struct{ url string }

type paymentIntent struct {
	ID       string            `json:"id"`
	Status   string            `json:"status"`
	Created  int64             `json:"created"`
	Metadata map[string]string `json:"metadata"`
}

type paymentIntents struct {
	Data    []paymentIntent `json:"data"`
	HasMore bool            `json:"has_more"`
}

// pay is what the handler calls. The operation's id in the metadata is what the reconciler finds the payment by; the derived
// key is what Stripe deduplicates by.
func (s stripe) pay(ctx context.Context, amount string) (paymentIntent, error) {
	operation, _ := core.Operation(ctx)
	key, err := core.DeriveCall(ctx, "payment")
	if err != nil {
		return paymentIntent{}, err
	}
	form := url.Values{"amount": {amount}, "currency": {"eur"}, "confirm": {"true"}, "metadata[operation]": {operation.String()}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/payment_intents", strings.NewReader(form.Encode()))
	if err != nil {
		return paymentIntent{}, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Idempotency-Key", key.String())
	return fetchJSON[paymentIntent](r)
}

// searchLag is the longest that Stripe's search has been behind, by its manual: usually under a minute, up to an hour while
// something is broken. Nothing that the search does not find says anything before that.
const searchLag = time.Hour

// reconcile is the Reconciler. It reads, and changes nothing.
//
//  1. The search by metadata costs one request, but it lags. What it finds is read again, because its status may be old.
//  2. Not found, and the operation is younger than searchLag: it cannot tell yet.
//  3. Then the list of payments since the operation began, which does not lag, is read to its end. What is in there was
//     applied. What is not in there was not: a request that is an hour old does not arrive any more, and if it did, Stripe
//     would know the key, which the next attempt uses again.
func (s stripe) reconcile(ctx context.Context, operation core.Record) (*core.Decision, error) {
	id := operation.ID.String()
	found, err := s.search(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case found == nil && operation.Now.Sub(operation.Deadline) < searchLag:
		return nil, nil // cannot tell yet
	case found == nil:
		found, err = s.list(ctx, id, operation.CreatedAt.Add(-5*time.Minute)) // their clock is not ours
	}
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return &core.Decision{Who: "stripe reconciler", Why: "no payment has this operation, an hour after its deadline"}, nil
	}
	return decide(*found)
}

// decide is what a payment means for its operation. A declined payment is an answer, too: the command was carried out, and
// must not run again with the same key.
func decide(p paymentIntent) (*core.Decision, error) {
	answer := &core.Answer{Header: http.Header{"Content-Type": {"application/json"}}}
	switch p.Status {
	case "succeeded":
		answer.Status, answer.Body = http.StatusCreated, fmt.Appendf(nil, `{"payment":%q}`, p.ID)
	case "canceled", "requires_payment_method":
		answer.Status, answer.Body = http.StatusPaymentRequired, []byte(`{"error":"declined"}`)
	default: // processing, requires_action: Stripe does not know either
		return nil, nil
	}
	return &core.Decision{Applied: true, Answer: answer, Who: "stripe reconciler", Why: p.ID + " is " + p.Status}, nil
}

func (s stripe) search(ctx context.Context, operation string) (*paymentIntent, error) {
	query := url.Values{"query": {"metadata['operation']:'" + operation + "'"}, "limit": {"2"}}
	page, err := get[paymentIntents](ctx, s.url+"/v1/payment_intents/search?"+query.Encode())
	switch {
	case err != nil || len(page.Data) == 0:
		return nil, err
	case len(page.Data) > 1 || page.Data[0].Metadata["operation"] != operation:
		return nil, errors.New("the search found another payment or several; somebody has to look at " + page.Data[0].ID)
	}
	now, err := get[paymentIntent](ctx, s.url+"/v1/payment_intents/"+page.Data[0].ID)
	return &now, err
}

func (s stripe) list(ctx context.Context, operation string, since time.Time) (*paymentIntent, error) {
	query := url.Values{"created[gte]": {strconv.FormatInt(since.Unix(), 10)}, "limit": {"100"}}
	for {
		page, err := get[paymentIntents](ctx, s.url+"/v1/payment_intents?"+query.Encode())
		if err != nil {
			return nil, err // an unread page is no proof
		}
		for _, p := range page.Data {
			if p.Metadata["operation"] == operation {
				return &p, nil
			}
		}
		switch {
		case !page.HasMore:
			return nil, nil
		case len(page.Data) == 0:
			return nil, errors.New("the list says that there is more, and does not show it")
		}
		query.Set("starting_after", page.Data[len(page.Data)-1].ID)
	}
}

func get[T any](ctx context.Context, address string) (T, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return *new(T), err
	}
	return fetchJSON[T](r)
}

func fetchJSON[T any](r *http.Request) (body T, err error) {
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return body, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, response.Body)
		return body, errors.New("stripe answers " + response.Status)
	}
	return body, json.NewDecoder(response.Body).Decode(&body)
}

// Three payments whose answers were lost: the first one can be found after a while; the second one never reached Stripe; the
// third one was made while Stripe's search was broken for hours. As long as the reconciler cannot tell, it says so, and is
// asked again.
func ExampleReconciler_stripe() {
	var clock storetest.Clock
	provider := newStripeSimulator(clock.Now)
	defer provider.Close()
	client := stripe{provider.URL}
	store := memstore.New(memstore.WithClock(clock.Now))
	idem, err := core.New(core.Config{
		Store: store, Now: clock.Now,
		Routes:    core.Routes{"POST /v1/payments": {Recovery: core.Park}},
		Reconcile: client.reconcile, // Run asks it; here settleUnknown does
	})
	must(err)
	reached := true
	app := guard(idem, "/v1/payments", func(w http.ResponseWriter, r *http.Request) {
		if reached {
			_, _ = client.pay(r.Context(), "4000")
		}
		w.WriteHeader(http.StatusGatewayTimeout) // nobody knows
	})
	pay := func(key string) { fmt.Println(key, post(app, "/v1/payments", key, `{"amount":"40.00"}`).Code) }
	pay("lost")
	reached = false
	pay("unreached")
	reached = true
	clock.Advance(nil, time.Second)
	provider.breakSearch()
	pay("unsearchable")

	for _, d := range []time.Duration{61 * time.Second, time.Minute, time.Hour} {
		clock.Advance(nil, d)
		settled, unknown := settleUnknown(idem, store, client.reconcile)
		fmt.Println(settled, "settled,", unknown, "unknown yet")
	}
	pay("lost")
	pay("unsearchable")
	fmt.Println(provider.payments(), "payments")
	// Output:
	// lost 504
	// unreached 504
	// unsearchable 504
	// 0 settled, 3 unknown yet
	// 1 settled, 2 unknown yet
	// 2 settled, 0 unknown yet
	// lost 201
	// unsearchable 201
	// 2 payments
}

// settleUnknown does what Run does with every sweep.
func settleUnknown(idem *core.Module, st store.Operations, reconcile core.Reconciler) (settled, unknown int) {
	ctx := context.Background()
	open, err := st.List(ctx, store.Query{Unknown: true, Limit: 100})
	must(err)
	for _, operation := range open {
		decision, err := reconcile(ctx, operation)
		must(err)
		if decision == nil {
			unknown++
			continue
		}
		_, err = operations.New(idem).Settle(ctx, operation.ID, *decision)
		must(err)
		settled++
	}
	return settled, unknown
}
