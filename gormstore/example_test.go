package gormstore_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/exampledb"
)

// Booking is a money row. Once is its second line: the operation that made it, UNIQUE.
type Booking struct {
	gormstore.Once

	ID     uint
	Amount string `gorm:"not null"`
}

// A Rollback handler writes through Tx. Its rows and its recorded answer commit together: a refusal undoes the rows and
// is recorded, a failure undoes both and the key is free.
func Example() {
	db, done := exampleDB()
	defer done()
	store, err := gormstore.New(db)
	must(err)
	defer func() { must(store.Close()) }()
	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Rollback}})
	must(err)

	book := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if _, err := gormstore.CreateOnce(gormstore.Tx(r.Context()), &Booking{Amount: "12.50"}); err != nil {
				status = http.StatusInternalServerError
			}
			w.WriteHeader(status)
		}
	}
	for _, request := range []struct {
		key    string
		status int
	}{
		{"a", http.StatusPaymentRequired}, {"a", http.StatusCreated}, // the refusal is final
		{"b", http.StatusInternalServerError}, {"b", http.StatusCreated}, // the failure is not
		{"b", http.StatusCreated},
	} {
		w := examplePost(idem, request.key, book(request.status))
		var rows int64
		must(db.Model(&Booking{}).Count(&rows).Error)
		fmt.Printf("%s: %d %q, rows: %d\n", request.key, w.Code, w.Header().Get(wire.HeaderResult), rows)
	}
	// Output:
	// a: 402 "created", rows: 0
	// a: 402 "reused", rows: 0
	// b: 500 "", rows: 0
	// b: 201 "created", rows: 1
	// b: 201 "reused", rows: 1
}

// exampleDB is an app's database, with the table of its bookings.
func exampleDB() (db *gorm.DB, done func()) {
	db, done = exampledb.Open()
	must(db.AutoMigrate(&Booking{}))
	return db, done
}

// examplePost sends a command through the module's guards. In an app, ginidem or echoidem do this.
func examplePost(idem *core.Module, key string, handler http.HandlerFunc) *httptest.ResponseRecorder {
	const route = "/v1/bookings"
	caller := core.Principal{Issuer: "https://issuer.example", Subject: "customer-1"}
	r := httptest.NewRequest(http.MethodPost, route, strings.NewReader(`{"amount":"12.50"}`))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	r, reply := idem.Admit(r, route, caller)
	if reply == nil {
		var attempt *core.Attempt
		if attempt, reply = idem.Begin(r, route, caller); attempt != nil {
			handler(attempt.Capture(w), attempt.Request())
			reply = attempt.Finish()
		}
	}
	must(reply.WriteTo(w))
	return w
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
