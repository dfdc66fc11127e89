// Package client calls a guarded route.
package client

import (
	"fmt"
	"log"
	"net/http"
	"strconv"
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

func waits(c *http.Client, r *http.Request, requests []*http.Request) (res *http.Response, err error) {
	for i, wait := range []time.Duration{0, time.Second, time.Minute} {
		time.Sleep(wait)
		r.Header.Set("Idempotency-Key", uuid.NewString()) // want `each try sends a new Idempotency-Key`
		if res, err = c.Do(r); err == nil {
			return res, nil
		}
		log.Print("try ", i, err)
	}
	for i, wait := range []time.Duration{0, time.Second} { // a request for each
		requests[i].Header.Set("Idempotency-Key", uuid.NewString())
		time.Sleep(wait)
		if res, err = c.Do(requests[i]); err == nil {
			return res, nil
		}
	}
	return nil, err
}

// counted ends when all are sent, not when one is.
func counted(c *http.Client, next func() *http.Request, total int) {
	for sent := 0; ; {
		r := next()
		r.Header.Set("Idempotency-Key", uuid.NewString())
		if _, err := c.Do(r); err != nil {
			continue
		}
		sent++
		if sent == total {
			break
		}
	}
}

func freshID() string { return uuid.NewString() }

func inFunctions(c *http.Client, r *http.Request) (err error) {
	for range 3 {
		r.Header.Set("Idempotency-Key", freshID()) // want `each try sends a new Idempotency-Key`
		if _, err = c.Do(r); err == nil {
			return nil
		}
	}
	for attempt := 0; attempt < 3; attempt++ {
		r.Header.Set("Idempotency-Key", fmt.Sprintf("pay-%d", attempt)) // want `each try sends a new Idempotency-Key`
		if _, err = c.Do(r); err == nil {
			return nil
		}
	}
	for {
		key := strconv.FormatInt(time.Now().UnixNano(), 10)
		r.Header["Idempotency-Key"] = []string{key} // want `each try sends a new Idempotency-Key`
		res, err := c.Do(r)
		if err != nil || res.StatusCode == http.StatusServiceUnavailable {
			continue
		}
		return nil
	}
}

func send(c *http.Client, r *http.Request, key string) error {
	r.Header.Set("Idempotency-Key", key) // want `each try sends a new Idempotency-Key`
	_, err := c.Do(r)
	return err
}

func makesAndSends(c *http.Client, r *http.Request) error {
	r.Header.Set("Idempotency-Key", uuid.NewString()) // want `each try sends a new Idempotency-Key`
	_, err := c.Do(r)
	return err
}

func callers(c *http.Client, r *http.Request) {
	for i := 0; i < 3; i++ {
		if err := send(c, r, "pay-"+strconv.Itoa(i)); err == nil {
			break
		}
	}
	for makesAndSends(c, r) != nil {
		time.Sleep(time.Second)
	}
}

func sendOne(c *http.Client, r *http.Request, key string) error {
	r.Header.Set("Idempotency-Key", key)
	_, err := c.Do(r)
	return err
}

// right: one key for each command, kept over the tries.
func right(c *http.Client, r *http.Request, jobs chan *http.Request) {
	key := ""
	for i := 0; i < 3; i++ {
		if key == "" {
			key = uuid.NewString()
		}
		if sendOne(c, r, key) == nil {
			break
		}
	}
	for {
		job := <-jobs
		if err := sendOne(c, job, uuid.NewString()); err != nil {
			time.Sleep(time.Second)
			continue
		}
		time.Sleep(time.Second)
	}
}
