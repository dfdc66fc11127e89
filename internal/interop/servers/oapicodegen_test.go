package servers_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/internal/interop/servers/payments"
)

// service implements what oapi-codegen has made of payments/spec.yaml, with payments/oapi-codegen.yaml.
type service struct {
	t    *testing.T
	runs *atomic.Int64
}

func (s service) Pay(ctx context.Context, in payments.PayRequestObject) (payments.PayResponseObject, error) {
	s.runs.Add(1)
	_, inside := core.Operation(ctx)
	assert.True(s.t, inside)
	return payments.Pay201JSONResponse{Id: &in.Account, Amount: in.Body.Amount}, nil
}

// Code of oapi-codegen registers its routes on a mux: a group of httpidem takes its place.
func TestOAPICodegen(t *testing.T) {
	requireGuarded(t, func(mux *httpidem.Router, runs *atomic.Int64) {
		payments.HandlerFromMux(payments.NewStrictHandler(service{t, runs}, nil), mux)
	})
}
