package gormstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// refundPayment is what a handler on a Resume route does: rows, a provider call, rows.
func refundPayment(ctx context.Context, p *psp) (receipt string, err error) {
	id, err := gormstore.Step(ctx, "reserve", func(tx *gorm.DB) (uint, error) {
		row := Booking{Amount: "-12.50"}
		_, err := gormstore.CreateOnce(tx, &row)
		return row.ID, err
	})
	if err != nil {
		return "", err
	}
	receipt, err = core.Call(ctx, "refund", func(ctx context.Context, key core.DerivedKey) (string, error) {
		return p.refund(key.String(), "12.50") // the key is the same in every attempt
	}, core.Dedup(23*time.Hour)) // the provider promises a day
	if err != nil {
		return "", err
	}
	return receipt, gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error {
		return tx.Model(&Booking{ID: id}).Update("amount", "-12.50 "+receipt).Error
	})
}

// A refund is interrupted: the provider has made it, but its answer is lost. The repeat goes on at that step.
func ExampleStep() {
	db, done := exampleDB()
	defer done()
	store, err := gormstore.New(db)
	must(err)
	defer func() { must(store.Close()) }()
	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Resume}})
	must(err)

	p := &psp{made: map[string]string{}, losesAnswers: 1}
	for range 3 {
		w := examplePost(idem, "refund-7", func(w http.ResponseWriter, r *http.Request) {
			receipt, err := refundPayment(r.Context(), p)
			if err != nil {
				http.Error(w, "try again", http.StatusBadGateway)
				return
			}
			_, _ = fmt.Fprintln(w, receipt)
		})
		fmt.Print(w.Code, " ", w.Body)
	}
	var rows []Booking
	must(db.Find(&rows).Error)
	fmt.Println("provider:", len(p.made), "rows:", len(rows), rows[0].Amount)
	// Output:
	// 502 try again
	// 200 receipt-1
	// 200 receipt-1
	// provider: 1 rows: 1 -12.50 receipt-1
}

// psp is a provider that deduplicates by key.
type psp struct {
	made         map[string]string
	losesAnswers int
}

func (p *psp) refund(key, _ string) (receipt string, err error) {
	if p.made[key] == "" {
		p.made[key] = fmt.Sprintf("receipt-%d", len(p.made)+1)
	}
	if p.losesAnswers > 0 {
		p.losesAnswers--
		return "", errors.New("timeout")
	}
	return p.made[key], nil
}
