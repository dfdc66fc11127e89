//go:build linux

package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAmountsFindIntents(t *testing.T) {
	require.Equal(t, "0.01", amount(0))
	require.Equal(t, "1.00", amount(99))
	require.Equal(t, "123.46", amount(12345))
	require.False(t, isRefund(0))
	require.True(t, isRefund(7))
	require.NotContains(t, seen(2000), deposit)
}

// seen are the amounts of so many intents. None is there twice.
func seen(intents int) map[string]int {
	amounts := map[string]int{}
	for intent := range intents {
		amounts[amount(intent)] = intent
	}
	return amounts
}

// booked are the ledgers of so many intents that went well.
func booked(intents int) (acknowledged []int, ledger, provider []line) {
	ledger = append(ledger, line{kindPayment, deposit})
	for intent := range intents {
		acknowledged = append(acknowledged, intent)
		if isRefund(intent) {
			ledger = append(ledger, line{kindRefund, amount(intent)})
			provider = append(provider, line{kindPayment, amount(intent)})
		} else {
			ledger = append(ledger, line{kindPayment, amount(intent)})
		}
	}
	return acknowledged, slices.Clip(ledger), slices.Clip(provider) // tests append to them
}

func TestCount(t *testing.T) {
	const intents = 20 // 7 and 15 are refunds
	require.Len(t, seen(intents), intents)
	acknowledged, ledger, provider := booked(intents)
	payment, refund, charge := line{kindPayment, amount(3)}, line{kindRefund, amount(7)}, line{kindPayment, amount(7)}

	good := counts{entries: intents, charges: 2}
	require.Equal(t, good, count(intents, acknowledged, ledger, provider))
	for what, c := range map[string]struct {
		acknowledged     []int
		ledger, provider []line
		want             counts
	}{
		"a payment twice": {acknowledged, append(ledger, payment), provider, counts{entries: 21, doubled: 1, charges: 2}},
		"a payment three times": {
			acknowledged, append(ledger, payment, payment), provider, counts{entries: 22, doubled: 1, charges: 2},
		},
		"a payment lost": {acknowledged, without(ledger, payment), provider, counts{entries: 19, lost: 1, charges: 2}},
		"a refund lost after its charge": {
			acknowledged, without(ledger, refund), provider, counts{entries: 19, lost: 1, charges: 2, unbooked: 1},
		},
		"a refund charged twice": {acknowledged, ledger, append(provider, charge), counts{entries: 20, charges: 3, overpaid: 1}},
		"not acknowledged, and not there": {
			without(acknowledged, 3), without(ledger, payment), provider, counts{entries: 19, charges: 2},
		},
		"not acknowledged, and there": {without(acknowledged, 3), ledger, provider, good},
		"of nobody": {
			acknowledged, append(ledger, line{kindPayment, amount(intents)}), provider, counts{entries: 20, stray: 1, charges: 2},
		},
		"of another kind": {
			acknowledged, append(ledger, line{kindRefund, amount(3)}), provider, counts{entries: 20, stray: 1, charges: 2},
		},
		"a payment at the provider": {acknowledged, ledger, append(provider, payment), counts{entries: 20, stray: 1, charges: 2}},
	} {
		require.Equal(t, c.want, count(intents, c.acknowledged, c.ledger, c.provider), what)
	}
}

func without[T comparable](all []T, gone T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return one == gone })
}
