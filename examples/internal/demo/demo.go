// Package demo is the page that explains the library (GET / of both example apps), and what only that page needs: a ledger
// that is written without keys, a token for each visitor, and faults to switch on.
//
// All of it exists in demo mode only. An app of your own needs nothing of it but page/pay.js, the code of the Pay button.
package demo

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/examples/internal/web"
)

// Demo has the handlers of the page.
type Demo struct {
	db   *gorm.DB
	sign func(name, role string) (token string, err error)
}

// New returns the handlers of the page. They write their payments into db, and sign a token for each visitor.
func New(db *gorm.DB, sign func(name, role string) (token string, err error)) *Demo {
	return &Demo{db: db, sign: sign}
}

// Models are the tables to migrate in demo mode.
func Models() []any { return []any{&payment{}} }

// Routes returns what the app's table has to say about the routes of the page, in demo mode only.
func Routes() core.Routes {
	return core.Routes{
		"POST /demo/payments": {
			Roles: []string{shop.RoleCustomer},
			Exempt: "shows what happens to payments without a key; they are rows of a table that is there for nothing else, " +
				"and the route exists in demo mode only",
		},
		"GET /demo/payments": {Roles: []string{shop.RoleCustomer}},
	}
}

// payment is a row of the ledger that is written without keys.
type payment struct {
	ID        string    `gorm:"primaryKey;size:32" json:"id"`
	Owner     string    `gorm:"size:64;not null;index" json:"-"`
	CreatedAt time.Time `json:"-"`
	OrderID   string    `gorm:"not null" json:"order_id"`
	Amount    string    `gorm:"not null" json:"amount"`
}

// TableName implements GORM's Tabler.
func (payment) TableName() string { return "demo_payments" }

// Pay books a payment as a handler does that knows no keys: every request is a new payment.
func (d *Demo) Pay(w http.ResponseWriter, r *http.Request) {
	var p payment
	if err := web.Decode(r, &p); err != nil {
		fail(w, err)
		return
	}
	p.ID, p.Owner, p.CreatedAt = "demo_"+rand.Text(), owner(r), time.Now()
	if err := d.db.WithContext(r.Context()).Create(&p).Error; err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusCreated, p)
}

// Payments lists what Pay has booked for the caller, oldest first.
func (d *Demo) Payments(w http.ResponseWriter, r *http.Request) {
	payments := []payment{}
	booked := d.db.WithContext(r.Context()).Where("owner = ?", owner(r)).Order("created_at, id")
	if err := booked.Find(&payments).Error; err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, payments)
}

// Visitor makes up a new customer, with a token. Both ledgers of a new customer are empty: that is how the page starts
// over, and why nobody's payments are ever deleted.
func (d *Demo) Visitor(w http.ResponseWriter, _ *http.Request) {
	name := "visitor-" + rand.Text()[:8]
	token, err := d.sign(name, shop.RoleCustomer)
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, map[string]any{"name": name, "token": token, "faults": d.faults()})
}

// owner is the caller as the rows name it. Every route that asks is behind the JWT guard.
func owner(r *http.Request) string {
	p, _ := authctx.FromContext(r.Context())
	scope := core.Scoping{}.PrincipalScope(p)
	return hex.EncodeToString(scope[:])
}

func fail(w http.ResponseWriter, err error) {
	p := web.ProblemOf(err)
	answer(w, p.Status, p)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		slog.Error("an answer could not be written", "error", err)
	}
}
