package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/gormstore/watermillidem"
)

// The topics. Each is a table of the SQL broker, or a stream of JetStream.
const (
	captured    = "payment_captured"
	deadLetters = "payment_captured_dead"
)

// PaymentCaptured says that a payment was captured. It is the contract between app and worker. It is not a type of the shop,
// because the shop's types may change while old messages still wait.
type PaymentCaptured struct {
	PaymentID string `json:"payment_id"`
	OrderID   string `json:"order_id"`
	Amount    string `json:"amount"`
	Currency  string `json:"currency"`
}

// announce returns the shop's hook: it publishes the event of a payment from the payment's own transaction (contract
// There is no payment without its event, and no event without its payment.
func (b *broker) announce(ctx context.Context, p *shop.Payment) error {
	payload, err := json.Marshal(PaymentCaptured{
		PaymentID: p.ID, OrderID: p.OrderID, Amount: p.Amount, Currency: p.Currency,
	})
	if err != nil {
		return err
	}
	event, err := watermillidem.Event(ctx, captured, payload)
	if err != nil {
		return err
	}
	return b.publish(ctx, event)
}

var errMalformed = errors.New("this is not a payment_captured event")

// paymentCaptured reads the event of a message.
func paymentCaptured(m *message.Message) (e PaymentCaptured, err error) {
	if err := json.Unmarshal(m.Payload, &e); err != nil {
		return e, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if e.PaymentID == "" {
		return e, fmt.Errorf("%w: it has no payment", errMalformed)
	}
	return e, nil
}
