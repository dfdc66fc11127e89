package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// booked counts the app's ledger entries of each of our orders.
func (p *payer) booked(ctx context.Context) (map[string]int, error) {
	request, err := p.request(ctx, http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	if err := p.authorize(request); err != nil {
		return nil, err
	}
	response, err := p.network.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the app answers %s", response.Status)
	}
	var payments []struct {
		Order string `json:"order_id"`
	}
	if err := json.NewDecoder(response.Body).Decode(&payments); err != nil {
		return nil, err
	}
	ours, err := p.planned()
	if err != nil {
		return nil, err
	}
	entries := make(map[string]int, len(ours))
	for _, purchase := range ours {
		entries[purchase.Order] = 0
	}
	for _, payment := range payments {
		if n, ok := entries[payment.Order]; ok { // other orders are not ours
			entries[payment.Order] = n + 1
		}
	}
	return entries, nil
}
