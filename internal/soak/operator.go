package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/harness"
)

// patience is how long an operator tries to settle an operation: its deadline must have passed.
const patience = 30 * time.Second

// settle lets an operator settle a parked refund as applied, because the provider has the charge. If a decision comes too
// early, the next one has a new key. If its answer is lost, it is repeated with the same key.
func (s *soak) settle(ctx context.Context, i intent) {
	tooEarly := 0
	for giveUp := time.Now().Add(patience); time.Now().Before(giveUp) && ctx.Err() == nil; {
		key := fmt.Sprintf("settlement-%d-%d", i.N, tooEarly)
		a, err := s.decide(ctx, i, key)
		switch {
		case err == nil && a.Recorded() && a.Status == http.StatusOK:
			s.settled.Add(1)
			return
		case err == nil && a.Code == core.CodeNotSettleable:
			tooEarly++
		}
		time.Sleep(time.Second)
	}
}

// decide sends the operator's decision.
func (s *soak) decide(ctx context.Context, i intent, key string) (answer, error) {
	body := fmt.Sprintf(`{"outcome":"applied","reason":"the provider has it","answer":{"amount":"%s"}}`, i.Amount)
	url := "http://shop/v1/operations/" + i.Operation() + "/settle"
	request, err := harness.NewRequest(ctx, url, s.tokens["operator-1"], key, body)
	if err != nil {
		return answer{}, err
	}
	response, a, err := s.wire.exchange(request)
	if err == nil {
		_ = response.Body.Close() // it was read
	}
	return a, err
}
