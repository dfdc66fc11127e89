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
	v1.HandleFunc("POST /payments", a.stray) // want `^POST /v1/payments writes past the attempt: Create at netapp/netapp.go:\d+ [^/]*$`
	v1.HandleFunc("GET /payments", a.stray)
	v1.HandleFunc("POST /park", a.stray)
	v1.HandleFunc("POST /tx", a.tx)
	v1.HandleFunc("/some", a.stray)                    // want `^POST /v1/some writes .*PATCH /v1/some writes .*DELETE /v1/some writes [^/]*/[^/]*$`
	v1.Handle("PUT /form", form{a.db})                 // want `PUT /v1/form writes past the attempt: Save at netapp/`
	v1.Handle("PATCH /form", &form{a.db})              // want `PATCH /v1/form writes past`
	v1.Handle("POST /func", http.HandlerFunc(a.stray)) // want `POST /v1/func writes past`
	more(v1.Group("/more"))                            // want `DELETE /v1/more/x writes past`
	late := mux.Group("")
	late.HandleFunc("POST /early", a.stray)
	late.Use(httpidem.Idempotent(idem))
	late.HandleFunc("POST /late", a.stray) // want `POST /late writes past`
	return mux
}

func more(r *httpidem.Router) { r.Handle("DELETE /x", form{}) }

func onMux(mux *http.ServeMux, idem *core.Module, verifier *authctx.Verifier, a app) {
	jwt, guard := httpidem.JWTGuard(verifier), httpidem.Idempotent(idem)
	mux.HandleFunc("POST /v1/mux/free", a.stray)
	mux.Handle("POST /v1/mux/guarded", jwt(guard(http.HandlerFunc(a.stray)))) // want `POST /v1/mux/guarded writes past`
	mux.Handle("POST /v1/mux/park", jwt(guard(http.HandlerFunc(a.stray))))
	mux.Handle("POST /v1/mux/tx", jwt(guard(http.HandlerFunc(a.tx))))
}

func (a app) stray(http.ResponseWriter, *http.Request) { a.db.Create(&repo.Payment{}) }

func (a app) tx(_ http.ResponseWriter, r *http.Request) {
	gormstore.Tx(r.Context()).Create(&repo.Payment{})
	a.conn(r).Create(&repo.Payment{})
}

func (a app) conn(r *http.Request) *gorm.DB { return a.db.WithContext(r.Context()) }

func (f form) ServeHTTP(http.ResponseWriter, *http.Request) { f.db.Save(&repo.Payment{}) }
