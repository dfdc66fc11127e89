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
			r.Post("/payments", a.stray) // want `POST /v1/payments writes past the attempt: Create at chiapp/chiapp.go:\d+`
			r.Post("/tx", a.tx)
			r.Route("/orders", a.orders) // want `DELETE /v1/orders/\{id\} writes past`
		})
		r.Put("/free", a.stray)
		r.With(httpidem.Idempotent(idem)).Put("/with", a.stray)                               // want `PUT /v1/with writes past`
		r.With(httpidem.Idempotent(idem)).Method("PATCH", "/with", http.HandlerFunc(a.stray)) // want `PATCH /v1/with writes past`
	})
	guarded := r.With(httpidem.Idempotent(idem))
	guarded.MethodFunc(http.MethodPost, "/method", a.stray) // want `POST /method writes past`
	guarded.HandleFunc("POST /handle", a.stray)             // want `^POST /handle writes past[^/]*/[^/]*$`
	r.Group(func(r chi.Router) { r.Post("/group", a.stray) })
	guarded.Group(func(r chi.Router) { r.Post("/group/guarded", a.stray) }) // want `POST /group/guarded writes past`
	return r
}

func (a app) orders(r chi.Router) {
	r.Post("/park", a.stray)
	r.Delete("/{id}", a.stray)
}

func (a app) stray(http.ResponseWriter, *http.Request) { a.db.Create(&repo.Payment{}) }

func (a app) tx(_ http.ResponseWriter, r *http.Request) {
	gormstore.Tx(r.Context()).Create(&repo.Payment{})
}
