package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/wire"
)

// Remote is another service with the API of the example apps, used as a provider: a charge is a payment there.
//
// Call it only from guarded handlers. The key of each call is derived from the handler's operation and step (C-3). So it is
// the same key in every repeat, also if connections are cut or a service is killed.
type Remote struct {
	url    string
	client *idemclient.Client
}

// NewRemote returns the provider at url, such as "http://127.0.0.1:8081", which knows the caller by the bearer token.
func NewRemote(url, token string) (*Remote, error) {
	client, err := idemclient.New(idemclient.Config{
		Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+token)
			return nil
		},
		MaxAttempts: 4, // our own caller repeats, too
	})
	return &Remote{url, client}, err
}

// Charge is [Provider].Charge over HTTP. The key of r is not used: the client derives its own.
func (p *Remote) Charge(ctx context.Context, r Request) (Charge, error) {
	if _, inside := core.Operation(ctx); !inside {
		return Charge{}, errors.New("provider: a charge belongs in a guarded route, because its key is derived from the operation")
	}
	body, err := json.Marshal(map[string]string{
		"order_id": r.Operation, "amount": r.Amount, "currency": r.Currency, "method": r.Method,
	})
	if err != nil {
		return Charge{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/payments", bytes.NewReader(body))
	if err != nil {
		return Charge{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := p.client.Do(ctx, "charge", request)
	switch {
	case errors.Is(err, idemclient.ErrKeyReused):
		return Charge{}, fmt.Errorf("%w: %w", ErrKeyReused, err)
	case err != nil: // given up: a repeat of our own operation continues with the same key
		return Charge{}, fmt.Errorf("%w: %w", ErrAnswerLost, err)
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusCreated:
		charge := Charge{Amount: r.Amount, Currency: r.Currency, Operation: r.Operation, Principal: r.Principal,
			Fresh: response.Header.Get(wire.HeaderResult) == wire.ResultCreated}
		return charge, json.NewDecoder(response.Body).Decode(&struct{ ID *string }{&charge.ID})
	case http.StatusPaymentRequired:
		return Charge{}, ErrDeclined
	}
	return Charge{}, fmt.Errorf("provider: it answers %s", response.Status)
}

// Charges returns nothing: the ledger of the other service is not visible here.
func (p *Remote) Charges(context.Context) ([]Charge, error) { return nil, nil }
