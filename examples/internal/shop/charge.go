package shop

import (
	"context"
	"errors"
	"fmt"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/examples/internal/provider"
)

// charge calls the provider for the operation of ctx. ErrDeclined is the provider's refusal: nothing was charged. After
// any other error this is not known.
func (s *Shop) charge(ctx context.Context, by string, r provider.Request) (fresh bool, err error) {
	operation, _ := core.Operation(ctx)
	r.Operation, r.Principal = operation.String(), by
	charge, err := s.provider.Charge(ctx, r)
	switch {
	case errors.Is(err, provider.ErrDeclined):
		return false, ErrDeclined
	case errors.Is(err, provider.ErrAnswerLost):
		return false, ErrNoAnswer
	case err != nil:
		return false, fmt.Errorf("shop: charge the provider: %w", err)
	}
	return charge.Fresh, nil
}
