//go:build linux

package main

// line is an entry of a ledger.
type line struct{ Kind, Amount string }

// The kinds of entries that intents book.
const (
	kindPayment = "payment"
	kindRefund  = "refund"
)

// deposit is the amount of the payments that refunds are taken from. No intent has it.
const deposit = "9999999999.00"

// counts compares the ledgers with what clients were told.
type counts struct {
	entries  int // of intents, in the apps' ledger
	doubled  int // intents with more than one entry
	lost     int // intents that were acknowledged, and have none
	stray    int // entries of no intent, or of another kind than its own
	charges  int // at the provider
	overpaid int // refunds that the provider was charged for more than once
	unbooked int // refunds that the provider was charged for, without an entry of our own
}

// count compares the apps' ledger, and the provider's, with the answers that so many intents got.
func count(intents int, acknowledged []int, ledger, provider []line) (c counts) {
	own, strayOwn := perIntent(intents, ledger, func(intent int) string {
		if isRefund(intent) {
			return kindRefund
		}
		return kindPayment
	})
	charged, strayCharges := perIntent(intents, provider, func(intent int) string {
		if isRefund(intent) {
			return kindPayment // there it is a payment of ours
		}
		return ""
	})
	c.stray = strayOwn + strayCharges
	for _, n := range own {
		c.entries += n
		if n > 1 {
			c.doubled++
		}
	}
	for _, intent := range acknowledged {
		if own[intent] == 0 {
			c.lost++
		}
	}
	for intent, n := range charged {
		c.charges += n
		if n > 1 {
			c.overpaid++
		}
		if own[intent] == 0 {
			c.unbooked++
		}
	}
	return c
}

// perIntent returns the number of entries of each intent that has any, and of those that belong to none: with an amount
// or a kind that no intent asks for.
func perIntent(intents int, ledger []line, kindOf func(intent int) string) (entries map[int]int, stray int) {
	intentOf := make(map[string]int, intents)
	for intent := range intents {
		intentOf[amount(intent)] = intent
	}
	entries = map[int]int{}
	for _, l := range ledger {
		intent, known := intentOf[l.Amount]
		switch {
		case l.Amount == deposit:
		case known && l.Kind == kindOf(intent):
			entries[intent]++
		default:
			stray++
		}
	}
	return entries, stray
}
