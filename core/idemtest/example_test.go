package idemtest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemtest"
)

var errUnavailable = errors.New("the provider does not answer")

// provider remembers the keys that it was called with.
type provider struct {
	up   bool
	keys []string
}

func (p *provider) charge(key string) error {
	p.keys = append(p.keys, key)
	if !p.up {
		return errUnavailable
	}
	return nil
}

// payOut is the code under test: part of a handler on a Park route.
func payOut(ctx context.Context, p *provider) error {
	key, err := core.DeriveCall(ctx, "payout")
	if err != nil {
		return err // a payout belongs into a guarded route
	}
	err = p.charge(key.String())
	if errors.Is(err, errUnavailable) {
		core.NotApplied(ctx) // it was never reached: the client may repeat the command with the same key
	}
	return err
}

func ExampleContext() {
	p := &provider{}

	first := idemtest.Context(context.Background(), idemtest.Config{Key: "payout-7"})
	fmt.Println(payOut(first, p), idemtest.Declared(first).NotApplied)

	p.up = true
	repeat := idemtest.Context(context.Background(), idemtest.Config{Key: "payout-7"})
	fmt.Println(payOut(repeat, p), idemtest.Declared(repeat).NotApplied)

	fmt.Println("the same key for the provider:", p.keys[0] == p.keys[1])

	// Output:
	// the provider does not answer true
	// <nil> false
	// the same key for the provider: true
}
