// Package chiapp is an app on chi.
package chiapp

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/core/idemvet/testdata/repo"
	"github.com/auth19/idem/gormstore"
)

var routes = core.Routes{"POST /v1/orders/park": {Recovery: core.Park}}

type app struct{ db *gorm.DB }

func mount(idem *core.Module, a app) http.Handler {
	r := chi.NewRouter()
	r.Post("/free", a.stray)
	r.Route("/v1", func(r chi.Router) {
		r.Post("/free", a.stray)
		r.Group(func(r chi.Router) {
			r.Use(httpidem.Idempotent(idem))
			r.Get("/payments", a.stray)
			r.Post("/payments", a.stray) // guarded POST /v1/payments
			r.Post("/tx", a.tx)          // guarded POST /v1/tx
			r.Route("/orders", a.orders)
		})
		r.Put("/free", a.stray)
		r.With(httpidem.Idempotent(idem)).Put("/with", a.stray)                               // guarded PUT /v1/with
		r.With(httpidem.Idempotent(idem)).Method("PATCH", "/with", http.HandlerFunc(a.stray)) // guarded PATCH /v1/with
	})
	guarded := r.With(httpidem.Idempotent(idem))
	guarded.MethodFunc(http.MethodPost, "/method", a.stray) // guarded POST /method
	guarded.HandleFunc("POST /handle", a.stray)             // guarded POST /handle
	r.Group(func(r chi.Router) { r.Post("/group", a.stray) })
	guarded.Group(func(r chi.Router) { r.Post("/group/guarded", a.stray) }) // guarded POST /group/guarded
	return r
}

func (a app) orders(r chi.Router) {
	r.Post("/park", a.stray)   // guarded POST /v1/orders/park
	r.Delete("/{id}", a.stray) // guarded DELETE /v1/orders/{id}
}

func (a app) stray(http.ResponseWriter, *http.Request) { a.db.Create(&repo.Payment{}) } // want `straywrite: Create goes past the attempt`

func (a app) tx(_ http.ResponseWriter, r *http.Request) {
	gormstore.Tx(r.Context()).Create(&repo.Payment{})
}
