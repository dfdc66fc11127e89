// Package netapp is an app on net/http.
package netapp

import (
	"net/http"

	"gorm.io/gorm"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/core/idemvet/testdata/repo"
	"github.com/auth19/idem/gormstore"
)

var routes = core.Routes{
	"POST /v1/park":     {Recovery: core.Park},
	"PUT /v1/some":      {Recovery: core.Park},
	"POST /v1/mux/park": {Recovery: core.Park},
}

type app struct{ db *gorm.DB }

// form is a handler that is a type.
type form struct{ db *gorm.DB }

func mount(idem *core.Module, verifier *authctx.Verifier, a app) *httpidem.Router {
	mux := httpidem.NewRouter()
	mux.HandleFunc("POST /free", a.stray)
	v1 := mux.Group("/v1", httpidem.JWTGuard(verifier), httpidem.Idempotent(idem))
	v1.HandleFunc("POST /payments", a.stray) // guarded POST /v1/payments
	v1.HandleFunc("GET /payments", a.stray)
	v1.HandleFunc("POST /park", a.stray)               // guarded POST /v1/park
	v1.HandleFunc("POST /tx", a.tx)                    // guarded POST /v1/tx
	v1.HandleFunc("/some", a.stray)                    // guarded POST /v1/some, PUT /v1/some, PATCH /v1/some, DELETE /v1/some
	v1.Handle("PUT /form", form{a.db})                 // guarded PUT /v1/form
	v1.Handle("PATCH /form", &form{a.db})              // guarded PATCH /v1/form
	v1.Handle("POST /func", http.HandlerFunc(a.stray)) // guarded POST /v1/func
	more(v1.Group("/more"))
	late := mux.Group("")
	late.HandleFunc("POST /early", a.stray)
	late.Use(httpidem.Idempotent(idem))
	late.HandleFunc("POST /late", a.stray) // guarded POST /late
	return mux
}

func more(r *httpidem.Router) { r.Handle("DELETE /x", form{}) } // guarded DELETE /v1/more/x

func onMux(mux *http.ServeMux, idem *core.Module, verifier *authctx.Verifier, a app) {
	jwt, guard := httpidem.JWTGuard(verifier), httpidem.Idempotent(idem)
	mux.HandleFunc("POST /v1/mux/free", a.stray)
	mux.Handle("POST /v1/mux/guarded", jwt(guard(http.HandlerFunc(a.stray)))) // guarded POST /v1/mux/guarded
	mux.Handle("POST /v1/mux/park", jwt(guard(http.HandlerFunc(a.stray))))    // guarded POST /v1/mux/park
	mux.Handle("POST /v1/mux/tx", jwt(guard(http.HandlerFunc(a.tx))))         // guarded POST /v1/mux/tx
}

func (a app) stray(http.ResponseWriter, *http.Request) { a.db.Create(&repo.Payment{}) } // want `straywrite: Create goes past the attempt`

func (a app) tx(_ http.ResponseWriter, r *http.Request) {
	gormstore.Tx(r.Context()).Create(&repo.Payment{})
	a.conn(r).Create(&repo.Payment{}) // want `straywrite: Create has the request's context, but`
}

func (a app) conn(r *http.Request) *gorm.DB { return a.db.WithContext(r.Context()) }

func (f form) ServeHTTP(http.ResponseWriter, *http.Request) { f.db.Save(&repo.Payment{}) } // want `straywrite: Save goes past the attempt`
