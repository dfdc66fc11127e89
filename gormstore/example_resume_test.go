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

// A Resume handler is a sequence of named steps: rows of the app's database, and calls of somebody else. A step that is
// finished is not taken again: the next attempt gets its result and goes on behind it.
func ExampleStep() {
	db, done := exampleDB()
	defer done()
	store, err := gormstore.New(db)
	must(err)
	defer func() { must(store.Close()) }()
	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Resume}})
	must(err)
	provider := &exampleProvider{}

	refund := func(ctx context.Context) error {
		id, err := gormstore.Step(ctx, "reserve", func(tx *gorm.DB) (uint, error) {
			row := Booking{Amount: "-12.50"}
			_, err := gormstore.CreateOnce(tx, &row)
			return row.ID, err
		})
		if err != nil {
			return err
		}
		receipt, err := core.Step(ctx, "refund", provider.Refund, core.Dedup(23*time.Hour)) // of a promised day
		if err != nil {
			return err
		}
		return gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error {
			fmt.Println("booking", id, "has receipt", receipt)
			return tx.Model(&Booking{ID: id}).Update("amount", "-12.50 paid").Error
		})
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		if refund(r.Context()) != nil {
			w.WriteHeader(http.StatusBadGateway) // the next repeat goes on
			return
		}
		w.WriteHeader(http.StatusCreated)
	}
	for range 3 {
		w := examplePost(idem, "a", handler)
		fmt.Printf("%d %q, refunds: %d\n", w.Code, w.Header().Get(core.HeaderResult), len(provider.refunds))
	}
	// Output:
	// 502 "", refunds: 1
	// booking 1 has receipt re_1
	// 201 "created", refunds: 1
	// 201 "reused", refunds: 1
}

// exampleProvider deduplicates by key. Its first answer is lost on the way.
type exampleProvider struct{ refunds map[string]string }

func (p *exampleProvider) Refund(ctx context.Context) (receipt string, err error) {
	key, _ := core.StepKey(ctx) // the same in every attempt
	if p.refunds == nil {
		p.refunds, err = make(map[string]string), errors.New("connection reset by peer")
	}
	if _, done := p.refunds[key.UUID()]; !done {
		p.refunds[key.UUID()] = fmt.Sprintf("re_%d", len(p.refunds)+1)
	}
	return p.refunds[key.UUID()], err
}
