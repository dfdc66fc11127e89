package main

import (
	"fmt"
	"math/rand/v2"
)

// kind is a kind of request.
type kind string

const (
	first  kind = "first request"
	replay kind = "replay"         // each time of another of many keys
	hot    kind = "hot-key replay" // always of the same key
)

// prepare makes an app ready for requests of a kind. next returns their keys; replays are spread over so many.
func (k kind) prepare(a *app, spread int) (next func() string, answer want, err error) {
	switch k {
	case first:
		return newKey, created, nil
	case replay, hot:
		n := 1
		if k == replay {
			n = spread
		}
		known := make([]string, n)
		for i := range known {
			known[i] = newKey()
			if err := a.send(guarded, known[i], created); err != nil {
				return nil, want{}, err
			}
		}
		return func() string { return known[rand.IntN(n)] }, reused, nil
	}
	return nil, want{}, fmt.Errorf("no such kind: %q", k)
}

// freshSide sends requests of a kind to an app that is opened anew for every turn. Otherwise the records that a store in
// memory has from earlier turns would be work for the garbage collector.
func freshSide(name string, k kind, spread int, open func() (*app, error)) side {
	return side{name: name, start: func() (func() error, error) {
		a, err := open()
		if err != nil {
			return nil, err
		}
		next, want, err := k.prepare(a, spread)
		if err != nil {
			return nil, err
		}
		return func() error { return a.send(guarded, next(), want) }, nil
	}}
}

// bareSide sends requests to the handler behind JWT and roles guard alone.
func bareSide(name string, a *app) side {
	return always(name, func() error { return a.send(bare, newKey(), plain) })
}
