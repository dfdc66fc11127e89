package journal_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/gormstore/journal"
	"github.com/auth19/idem/internal/exampledb"
)

// Remittance is a row of an app that calls a bank.
type Remittance struct {
	ID     uint
	Amount string `gorm:"not null"`
	Status int    // of the bank's answer; 0 until there is one
}

// An app plans a call in the transaction of its rows, sends it after COMMIT, and ends it in the transaction of the row that
// says what came of it. It is killed when the bank has paid and the app does not know yet. Started again it finds the
// intent, makes the request of its own row once more, and gets the answer that was lost: the key is the one of before.
func ExampleJournal() {
	db, done := exampledb.Open()
	defer done()
	must(db.AutoMigrate(&Remittance{}))
	bank := exampleBank()
	defer bank.Close()

	// The first process.
	killed, kill := context.WithCancel(context.Background())
	first := newRemittances(db, bank.URL, killing(kill))
	must(db.Transaction(func(tx *gorm.DB) error { // the intent commits with your rows
		row := Remittance{Amount: "12.50"}
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		return first.journal.Plan(tx, fmt.Sprintf("remittance/%d", row.ID))
	}))
	fmt.Println("first:", first.send(killed) == nil)

	// The second process.
	second := newRemittances(db, bank.URL, http.DefaultTransport)
	fmt.Println("second:", second.send(context.Background()) == nil)
	// Output:
	// the bank has paid
	// first: false
	// remittance/1: 201 replayed: true
	// second: true
}

// A client whose keys survive a restart, and whose token is fresh in each attempt.
func ExampleNew() {
	db, done := exampledb.Open()
	defer done()
	bank := exampleBank()
	defer bank.Close()
	token := func() string { return "..." }

	j, err := journal.New(db)
	must(err)
	must(j.Validate(context.Background()))
	client, err := idemclient.New(idemclient.Config{
		Authorize: func(r *http.Request) error { // before each attempt: a fresh token does not change the key
			r.Header.Set("Authorization", "Bearer "+token())
			return nil
		},
		Journal: j, // journal.New(db), and its Validate at start: keys survive a restart
	})
	must(err)
	ctx := context.Background()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, bank.URL+"/v1/payments", strings.NewReader(`{"amount":"12.50"}`))
	must(err)
	res, err := client.Do(ctx, "order-7/pay", req)
	must(err)
	defer func() { must(res.Body.Close()) }()
	fmt.Println(res.StatusCode)
	// Output:
	// the bank has paid
	// 201
}

// remittances sends the remittances of an app.
type remittances struct {
	db      *gorm.DB
	journal *journal.Journal
	client  *idemclient.Client
	bank    string
}

func newRemittances(db *gorm.DB, bank string, network http.RoundTripper) remittances {
	j, err := journal.New(db)
	must(err)
	client, err := idemclient.New(idemclient.Config{Journal: j, CallerEnds: true, Transport: network})
	must(err)
	return remittances{db: db, journal: j, client: client, bank: bank}
}

// send sends what has no answer yet: at the start of the app, and after a commit. Any number of processes may.
func (s remittances) send(ctx context.Context) (failed error) {
	for last := ""; ; {
		pending, err := s.journal.Pending(ctx, last, 100)
		if err != nil || len(pending) == 0 {
			return errors.Join(failed, err)
		}
		for _, entry := range pending { // one that fails does not stop the others
			failed = errors.Join(failed, s.sendOne(ctx, entry.Intent))
			last = entry.Intent
		}
	}
}

func (s remittances) sendOne(ctx context.Context, intent string) error {
	var row Remittance
	if err := s.db.Take(&row, strings.TrimPrefix(intent, "remittance/")).Error; err != nil {
		return err
	}
	// The request is made of your own rows, the same each time.
	body := strings.NewReader(fmt.Sprintf(`{"amount":%q}`, row.Amount))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.bank+"/v1/payments", body)
	if err != nil {
		return err
	}
	res, err := s.client.Do(ctx, intent, r)
	switch {
	case errors.Is(err, idemclient.ErrEnded):
		return nil // by another process, which has written the row
	case err != nil: // later, under the same key: see the table of docs/client.md
		if s.db.Take(&row).Error == nil && row.Status >= 300 { // another process has ended it meanwhile
			err = fmt.Errorf("ALARM: %s: the bank may have paid, and the row says %d: %w", intent, row.Status, err)
		}
		return err
	}
	_ = res.Body.Close() // it is in memory
	if !idemclient.ResultOf(res).Ends {
		return fmt.Errorf("%s: %d", intent, res.StatusCode) // later, with a fresh token for instance
	}
	fmt.Printf("%s: %d replayed: %t\n", intent, res.StatusCode, idemclient.ResultOf(res).Replayed)
	err = s.db.Transaction(func(tx *gorm.DB) error { // the outcome commits with your rows
		if err := tx.Model(&row).Update("status", res.StatusCode).Error; err != nil {
			return err
		}
		return s.journal.Done(tx, intent)
	})
	if errors.Is(err, journal.ErrNotPending) { // another process was faster, and sent the same command
		err = s.db.Take(&row).Error
		if paid := res.StatusCode < 300; err == nil && paid && row.Status >= 300 {
			err = fmt.Errorf("ALARM: %s: the bank has paid, and the row says %d", intent, row.Status)
		}
	}
	return err
}

// exampleBank has one guarded route.
func exampleBank() *httptest.Server {
	idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	must(err)
	return httptest.NewServer(guarded(idem, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Println("the bank has paid")
		w.WriteHeader(http.StatusCreated)
	}))
}

// killing is a network on which the app dies when its first command has been carried out.
func killing(kill context.CancelFunc) http.RoundTripper {
	return network(func(r *http.Request) (*http.Response, error) {
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_ = res.Body.Close()
		kill()
		return nil, context.Canceled
	})
}

type network func(*http.Request) (*http.Response, error)

func (n network) RoundTrip(r *http.Request) (*http.Response, error) { return n(r) }
