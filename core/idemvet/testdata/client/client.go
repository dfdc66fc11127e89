// Package client calls a guarded route.
package client

import (
	"net/http"
	"time"

	"github.com/google/uuid"
)

func eachTry(c *http.Client, r *http.Request) (*http.Response, error) {
	for range 3 {
		key := uuid.NewString()
		r.Header.Set("Idempotency-Key", key) // want `each try sends a new Idempotency-Key`
		if res, err := c.Do(r); err == nil {
			return res, nil
		}
	}
	for i := 0; ; i++ {
		r.Header.Set("idempotency-key", uuid.Must(uuid.NewV7()).String()) // want `each try sends a new Idempotency-Key`
		res, err := c.Do(r)
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		return res, nil
	}
}

func once(c *http.Client, r *http.Request) (*http.Response, error) {
	key := uuid.NewString()
	for {
		r.Header.Set("Idempotency-Key", key)
		if res, err := c.Do(r); err == nil {
			return res, nil
		}
	}
}

func many(c *http.Client, requests []*http.Request) error {
	for i := 0; i < len(requests); i++ {
		requests[i].Header.Set("Idempotency-Key", uuid.NewString())
		if _, err := c.Do(requests[i]); err != nil {
			return err
		}
	}
	for _, r := range requests {
		r.Header.Set("Idempotency-Key", uuid.NewString())
		if _, err := c.Do(r); err != nil {
			continue
		}
	}
	return nil
}
