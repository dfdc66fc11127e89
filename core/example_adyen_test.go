package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/storetest"
)

// notification is an item of a webhook as Adyen sends it, as far as a reconciler needs it.
type notification struct {
	EventCode         string `json:"eventCode"`
	Success           string `json:"success"` // "true" or "false"
	PspReference      string `json:"pspReference"`
	MerchantReference string `json:"merchantReference"` // the operation's id: the handler has sent it as reference
	Reason            string `json:"reason"`
}

// authorisations are what the webhooks have said. An app keeps them in a table of its own, with a unique index on event code
// and pspReference, and answers the webhook after its COMMIT (docs/queues.md#webhooks). It verifies the HMAC before it believes one.
type authorisations struct {
	mu   sync.Mutex
	said map[string]map[string]notification // by merchantReference, and by pspReference
}

// ServeHTTP takes a webhook. The same one may come again, and in any order: the payment may be known before the handler has
// noticed that its answer was lost.
func (a *authorisations) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var webhook struct {
		Items []struct {
			Item notification `json:"NotificationRequestItem"`
		} `json:"notificationItems"`
	}
	if json.NewDecoder(r.Body).Decode(&webhook) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range webhook.Items {
		if n.Item.EventCode == "AUTHORISATION" {
			if a.said[n.Item.MerchantReference] == nil {
				a.said[n.Item.MerchantReference] = map[string]notification{}
			}
			a.said[n.Item.MerchantReference][n.Item.PspReference] = n.Item
		}
	}
}

// reconcile is the Reconciler. It asks the app's own table: Adyen has no request that finds a payment by its reference
// (https://github.com/Adyen/adyen-php-api-library/issues/22). So
// "nothing is there" never means "not applied": a webhook may be late by days. It stays unknown, the alert for old unknown
// operations comes, and a person looks for the merchant reference in the Customer Area and settles.
func (a *authorisations) reconcile(_ context.Context, operation core.Record) (*core.Decision, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	said := a.said[operation.ID.String()]
	if len(said) > 1 {
		return nil, errors.New("two payments have this operation as their reference: somebody has to look at them")
	}
	for _, n := range said {
		answer := &core.Answer{Status: http.StatusCreated, Body: fmt.Appendf(nil, `{"payment":%q}`, n.PspReference)}
		if n.Success != "true" { // refused is an answer as well: the command has run
			answer = &core.Answer{Status: http.StatusPaymentRequired, Body: []byte(`{"error":"refused"}`)}
		}
		answer.Header = http.Header{"Content-Type": {"application/json"}}
		return &core.Decision{Applied: true, Answer: answer, Who: "adyen reconciler",
			Why: "webhook of " + n.PspReference + ", success " + n.Success}, nil
	}
	return nil, nil // cannot tell yet
}

// Three payments whose answers were lost. The webhooks of two come later, one of them twice; the third is left to a person.
func ExampleReconciler_adyen() {
	var clock storetest.Clock
	webhooks := &authorisations{said: map[string]map[string]notification{}}
	st := memstore.New(memstore.WithClock(clock.Now))
	idem, err := core.New(core.Config{
		Store: st, Now: clock.Now,
		Routes:    core.Routes{"POST /v1/payments": {Recovery: core.Park}},
		Reconcile: webhooks.reconcile, // Run asks it; here settleUnknown does
	})
	must(err)
	references := map[string]string{}
	app := guard(idem, "/v1/payments", func(w http.ResponseWriter, r *http.Request) {
		// POST /payments with {"reference": the operation's id} and the header Idempotency-Key: core.DeriveCall.
		operation, _ := core.Operation(r.Context())
		references[r.Header.Get("Idempotency-Key")] = operation.String()
		w.WriteHeader(http.StatusGatewayTimeout) // nobody knows
	})
	pay := func(key string) { fmt.Println(key, post(app, "/v1/payments", key, `{"amount":"40.00"}`).Code) }
	send := func(key, psp, success string) {
		body := fmt.Sprintf(`{"notificationItems":[{"NotificationRequestItem":{"eventCode":"AUTHORISATION","success":%q,`+
			`"pspReference":%q,"merchantReference":%q}}]}`, success, psp, references[key])
		webhooks.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader(body)))
	}
	round := func() {
		settled, unknown := settleUnknown(idem, st, webhooks.reconcile)
		fmt.Println(settled, "settled,", unknown, "unknown yet")
	}
	pay("authorised")
	pay("refused")
	pay("silent")
	send("authorised", "PSP1", "true") // before anybody asks
	clock.Advance(nil, 2*store.DefaultDeadline)
	round()
	send("authorised", "PSP1", "true")
	send("refused", "PSP2", "false")
	round()
	pay("authorised")
	pay("refused")
	pay("silent")
	// Output:
	// authorised 504
	// refused 504
	// silent 504
	// 1 settled, 2 unknown yet
	// 1 settled, 1 unknown yet
	// authorised 201
	// refused 402
	// silent 409
}
