package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/examples/internal/database"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/journal"
)

// purchase is a row in the client's own database: what must be paid once.
type purchase struct {
	Order  string `gorm:"primaryKey;column:order_id"` // names the intent, too
	Amount string `gorm:"not null"`
	Paid   bool   `gorm:"not null;default:false"`
}

// payer pays for purchases.
type payer struct {
	url, token string
	db         *gorm.DB
	journal    *journal.Journal
	client     *idemclient.Client
	network    http.RoundTripper

	paid, attempts, replays atomic.Int64
}

func openPayer(ctx context.Context, o options, network http.RoundTripper) (*payer, error) {
	address, err := database.Parse("sqlite:" + o.journal)
	if err != nil {
		return nil, err
	}
	p := &payer{url: o.url, token: o.token, network: network}
	if p.db, err = address.Open(ctx, 4); err != nil {
		return nil, err
	}
	if err := p.open(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *payer) open(ctx context.Context) (err error) {
	if err := gormstore.Migrate(ctx, p.db); err != nil {
		return err
	}
	if err := database.Migrate(ctx, p.db, &purchase{}); err != nil {
		return err
	}
	if p.journal, err = journal.New(p.db); err != nil {
		return err
	}
	if err := p.journal.Validate(ctx); err != nil {
		return err
	}
	p.client, err = idemclient.New(idemclient.Config{
		Journal: p.journal, CallerEnds: true, Transport: p.network, Authorize: p.authorize, Observe: p.observe, MaxAttempts: 20,
	})
	return err
}

func (p *payer) close() { _ = database.Close(p.db) }

// authorize puts the token on each attempt. A client with tokens that expire gets a fresh one here.
func (p *payer) authorize(r *http.Request) error {
	r.Header.Set("Authorization", "Bearer "+p.token)
	return nil
}

func (p *payer) observe(_ context.Context, a idemclient.Try) {
	p.attempts.Add(1)
	if a.Replayed {
		p.replays.Add(1)
	}
}

// plan writes n new purchases, each in one transaction with its intent. From then on each is paid once, even if this
// process is killed.
func (p *payer) plan(n int) error {
	return p.db.Transaction(func(tx *gorm.DB) error {
		for i := range n {
			bought := purchase{Order: "order-" + rand.Text(), Amount: fmt.Sprintf("%d.%02d", 1+i/100, i%100)}
			if err := tx.Create(&bought).Error; err != nil {
				return err
			}
			if err := p.journal.Plan(tx, bought.Order); err != nil {
				return err
			}
		}
		return nil
	})
}

// planned lists the purchases, also those of earlier runs.
func (p *payer) planned() (all []purchase, err error) {
	return all, p.db.Find(&all).Error
}

// payAll pays for all intents without an answer. The first error ends it. The next run continues with what is pending.
func (p *payer) payAll(ctx context.Context, clients int, out io.Writer) error {
	all, err := p.planned()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pending := make(chan string)
	var workers, progress sync.WaitGroup
	for range clients {
		workers.Go(func() {
			for intent := range pending {
				if err := p.pay(ctx, intent); err != nil {
					cancel(err)
				}
			}
		})
	}
	progress.Go(func() { p.showProgress(ctx, len(all), out) })
	err = p.feed(ctx, pending)
	close(pending)
	workers.Wait()
	if err == nil {
		err = context.Cause(ctx) // of a worker, or an interrupt
	}
	cancel(nil)
	progress.Wait()
	return err
}

// feed sends the intents without an answer, page by page.
func (p *payer) feed(ctx context.Context, pending chan<- string) error {
	for last := ""; ; {
		page, err := p.journal.Pending(ctx, last, 100)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, intent := range page {
			select {
			case pending <- intent.Intent:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		last = page[len(page)-1].Intent
	}
}

// pay sends one payment, and repeats it until it has an answer.
func (p *payer) pay(ctx context.Context, intent string) error {
	var bought purchase
	if err := p.db.WithContext(ctx).Take(&bought, "order_id = ?", intent).Error; err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{
		"order_id": bought.Order, "amount": bought.Amount, "currency": "EUR", "method": "pm_ok",
	})
	if err != nil {
		return err
	}
	request, err := p.request(ctx, http.MethodPost, body)
	if err != nil {
		return err
	}
	response, err := p.client.Do(ctx, intent, request)
	switch {
	case errors.Is(err, idemclient.ErrEnded):
		return nil // another process has booked it
	case err != nil:
		return err
	}
	defer func() { _ = response.Body.Close() }()
	// Anything else stays pending. A shop would cancel the order, and end its intent, after a refusal for which
	// idemclient.ResultOf(response).Ends is true.
	if response.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s: the app answers %s", intent, response.Status)
	}
	if err := p.book(ctx, bought); err != nil {
		return err
	}
	p.paid.Add(1)
	return nil
}

// book records that a purchase is paid, and ends its intent in the same transaction. If the process is killed before
// that, its next run finds the intent pending, asks for the answer again, and books it then.
func (p *payer) book(ctx context.Context, bought purchase) error {
	err := p.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Model(&bought).Update("paid", true).Error; err != nil {
			return err
		}
		return p.journal.Done(tx, bought.Order)
	})
	if errors.Is(err, journal.ErrNotPending) { // another process was faster, and should have booked the same
		err = p.db.WithContext(ctx).Take(&bought).Error
		if err == nil && !bought.Paid {
			err = fmt.Errorf("%s: the app has been paid, and the purchase has ended without that", bought.Order)
		}
	}
	return err
}

// request makes a request to the app's payments.
func (p *payer) request(ctx context.Context, method string, body []byte) (*http.Request, error) {
	//nolint:gosec // the address is the user's own choice
	request, err := http.NewRequestWithContext(ctx, method, p.url+"/v1/payments", bytes.NewReader(body))
	if err == nil && body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, err
}

// showProgress prints the progress in one line until ctx ends.
func (p *payer) showProgress(ctx context.Context, all int, out io.Writer) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for ended := false; !ended; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			ended = true
		}
		_, _ = fmt.Fprintf(out, "\rpaid %d of %d, attempts %d ", p.paid.Load(), all, p.attempts.Load())
	}
	_, _ = fmt.Fprintln(out)
}
