package inbox_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/internal/exampledb"
)

// Invoice is a row that a payment provider's event changes.
type Invoice struct {
	ID     string
	Status string
	Events int // how many events have changed it
}

// providerEvent is what the provider sends.
type providerEvent struct {
	ID      string          `json:"id"`
	Created int64           `json:"created"` // seconds since 1970
	Data    json.RawMessage `json:"data"`
}

var webhookSecret = []byte("whsec_thirty-two bytes of a secret")

// signature is the header that the provider sends with a body.
func signature(body []byte) string {
	mac := hmac.New(sha256.New, webhookSecret)
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// takeEvents takes the provider's events. Each one changes the rows once, however often it is delivered.
func takeEvents(box *inbox.Inbox) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || !hmac.Equal([]byte(signature(body)), []byte(r.Header.Get("Signature"))) {
			w.WriteHeader(http.StatusBadRequest) // before anything else is believed
			return
		}
		var event providerEvent
		if err := json.Unmarshal(body, &event); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		err = box.Process(r.Context(), inbox.Message{
			Source: "provider/live", ID: event.ID, Published: time.Unix(event.Created, 0),
			Payload: event.Data, // not the whole body: it has a count of deliveries
		}, func(tx *gorm.DB) error { return applyEvent(tx, event) })
		w.WriteHeader(statusOf(err))
	}
}

// statusOf says to the provider whether it shall send the event again.
func statusOf(err error) int {
	switch {
	case err == nil:
		return http.StatusOK // processed, now or before
	case errors.Is(err, inbox.ErrReused), errors.Is(err, inbox.ErrTooOld),
		errors.Is(err, inbox.ErrUnknown), errors.Is(err, inbox.ErrInvalid):
		slog.Error("an event needs a person", "err", err) // another delivery would end in the same way
		return http.StatusOK
	}
	return http.StatusServiceUnavailable // busy, or the database: send it again
}

// applyEvent writes through tx only.
func applyEvent(tx *gorm.DB, event providerEvent) error {
	var invoice Invoice
	if err := json.Unmarshal(event.Data, &invoice); err != nil {
		return err
	}
	return tx.Model(&Invoice{ID: invoice.ID}).
		Updates(map[string]any{"status": invoice.Status, "events": gorm.Expr("events + 1")}).Error
}

// A provider delivers an event twice, with another count of deliveries in it. Somebody else sends one without the
// signature.
func ExampleInbox_webhook() {
	db, done := exampledb.Open()
	defer done()
	must(db.AutoMigrate(&Invoice{}))
	must(db.Create(&Invoice{ID: "in_7", Status: "open"}).Error)
	box, err := inbox.New(db, inbox.Config{
		Group:           "invoices",
		BrokerRetention: 30 * 24 * time.Hour, // as long as the provider can send an event again, by hand too
	})
	must(err)

	handler := takeEvents(box)
	deliver := func(body, signature string) {
		r := httptest.NewRequest(http.MethodPost, "/webhooks/provider", strings.NewReader(body))
		r.Header.Set("Signature", signature)
		w := httptest.NewRecorder()
		handler(w, r)
		var invoice Invoice
		must(db.First(&invoice, "id = ?", "in_7").Error)
		fmt.Println(w.Code, invoice.Status, invoice.Events)
	}
	now := time.Now().Unix()
	for delivery := range 2 {
		body := fmt.Sprintf(`{"id":"evt_1","created":%d,"delivery":%d,"data":{"ID":"in_7","Status":"paid"}}`, now, delivery)
		deliver(body, signature([]byte(body)))
	}
	deliver(`{"id":"evt_2","data":{"ID":"in_7","Status":"refunded"}}`, "forged")
	// Output:
	// 200 paid 1
	// 200 paid 1
	// 400 paid 1
}
