//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core/idemclient"
)

const (
	clients   = 16  // commands under way at a time
	perSecond = 100 // new commands, as far as the clients are free
)

// load makes payments and refunds at the apps, each again and again until there is an answer.
type load struct {
	tally    *tally
	client   *idemclient.Client
	balancer *balancer
	deposits []string // the paths of the payments that are refunded

	attempts, replays atomic.Int64
}

// newLoad returns a load for the apps, and makes the deposits.
func newLoad(ctx context.Context, apps []*app) (l *load, err error) {
	l = &load{tally: newTally(), balancer: newBalancer(apps)}
	l.client, err = idemclient.New(idemclient.Config{
		Transport: l.balancer, Journal: newJournal(),
		Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+apps[0].tokens["customer-1"]) // all apps know it
			return nil
		},
		Observe: func(_ context.Context, a idemclient.Try) {
			l.attempts.Add(1)
			if a.Replayed {
				l.replays.Add(1)
			}
		},
		MaxAttempts: 1000, MaxElapsed: patience, AttemptTimeout: 30 * time.Second, MaxPause: time.Second,
	})
	if err != nil {
		return nil, err
	}
	for i := range clients {
		answer, err := l.do(ctx, fmt.Sprint("deposit-", i), "/v1/payments", payment(deposit))
		if err != nil {
			return nil, err
		}
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(answer), &made); err != nil {
			return nil, err
		}
		l.deposits = append(l.deposits, "/v1/payments/"+made.ID)
	}
	return l, nil
}

func payment(amount string) string {
	return `{"order_id":"failover","amount":"` + amount + `","currency":"EUR","method":"pm_ok"}`
}

// send sends the command of an intent, for as long as it takes.
func (l *load) send(ctx context.Context, intent int) (answer string, err error) {
	if isRefund(intent) {
		// Neighbours take different deposits, so that they do not wait for each other.
		path := l.deposits[intent/refundEvery%len(l.deposits)] + "/refunds"
		return l.do(ctx, fmt.Sprint("refund-", intent), path, `{"amount":"`+amount(intent)+`"}`)
	}
	return l.do(ctx, fmt.Sprint("payment-", intent), "/v1/payments", payment(amount(intent)))
}

func (l *load) do(ctx context.Context, intent, path, body string) (answer string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://apps"+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := l.client.Do(ctx, intent, request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%s is refused: %s %s", intent, response.Status, bytes.TrimSpace(read))
	}
	return string(read), err
}

// run sends new intents until enough is closed, and returns when all have their answers.
func (l *load) run(ctx context.Context, enough <-chan struct{}) {
	ticker := time.NewTicker(time.Second / perSecond)
	defer ticker.Stop()
	var workers sync.WaitGroup
	for range clients {
		workers.Go(func() {
			for {
				select {
				case <-enough:
					return
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				intent := l.tally.next()
				answer, err := l.send(ctx, intent)
				if err != nil {
					l.tally.fail(err)
					continue
				}
				l.tally.acknowledge(intent, answer, time.Now())
			}
		})
	}
	workers.Wait()
}

// repeat sends all commands again that got an answer, and returns how many get another one now.
func (l *load) repeat(ctx context.Context) (others int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	intents := make(chan int)
	var workers sync.WaitGroup
	var different atomic.Int64
	for range clients {
		workers.Go(func() {
			for intent := range intents {
				answer, err := l.send(ctx, intent)
				if err != nil {
					cancel(err)
				} else if answer != l.tally.answer(intent) {
					different.Add(1)
				}
			}
		})
	}
	for _, intent := range l.tally.all() {
		intents <- intent // after an error, quickly
	}
	close(intents)
	workers.Wait()
	return int(different.Load()), context.Cause(ctx)
}

// balancer sends each request to the next app: a repeat goes to another one than the request before it.
type balancer struct {
	*http.Transport
	hosts []string
	turn  atomic.Int64
}

func newBalancer(apps []*app) *balancer {
	b := &balancer{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	b.MaxIdleConnsPerHost = clients
	for _, a := range apps {
		b.hosts = append(b.hosts, strings.TrimPrefix(a.url, "http://"))
	}
	return b
}

// RoundTrip implements [http.RoundTripper].
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = b.hosts[int(b.turn.Add(1))%len(b.hosts)]
	return b.Transport.RoundTrip(r)
}
