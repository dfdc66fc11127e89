package servers_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/stretchr/testify/assert"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
)

// huma registers its operations on a mux: a group of httpidem takes its place.
func TestHuma(t *testing.T) {
	requireGuarded(t, func(mux *httpidem.Router, runs *atomic.Int64) {
		cfg := huma.DefaultConfig("payments", "1")
		cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "", "", "" // behind the JWT guard nobody would see them
		cfg.CreateHooks = nil                                       // no "$schema" in answers
		type input struct {
			Account string `path:"account"`
			Body    payment
		}
		type output struct{ Body payment }
		huma.Register(humago.New(mux, cfg), huma.Operation{
			OperationID: "pay", Method: http.MethodPost, Path: "/v1/payments/{account}", DefaultStatus: http.StatusCreated,
		}, func(ctx context.Context, in *input) (*output, error) {
			runs.Add(1)
			_, inside := core.Operation(ctx)
			assert.True(t, inside)
			return &output{payment{ID: in.Account, Amount: in.Body.Amount}}, nil
		})
	})
}
