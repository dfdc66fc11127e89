package shop

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

var payment = PaymentInput{OrderID: "o-1", Amount: "10.5", Currency: "EUR", Method: MethodOK}

func (h *harness) pay(p core.Principal, key string, in PaymentInput) (paid *Payment, err error) {
	err = h.attempt(rollback, p, key, func(ctx context.Context) error {
		paid, err = h.Pay(ctx, p, in)
		return err
	})
	return paid, err
}

func TestPaidIsPartOfThePayment(t *testing.T) {
	onEach(t, func(t *testing.T, h *harness) {
		var refuse error
		h.Paid = func(ctx context.Context, p *Payment) error {
			name := profile{Owner: p.ID, Name: p.Amount} // any row will do
			if err := gormstore.Tx(ctx).Create(&name).Error; err != nil {
				return err
			}
			return refuse
		}
		told := func() (n int64) {
			require.NoError(t, h.db.Model(&profile{}).Count(&n).Error)
			return n
		}
		_, err := h.pay(anna, "k1", payment)
		require.NoError(t, err)
		require.EqualValues(t, 1, told())

		refuse = ErrSimulated
		_, err = h.pay(anna, "k2", payment)
		require.ErrorIs(t, err, ErrSimulated)
		refuse = nil
		in := payment
		in.Method = MethodError // fails after it was called
		_, err = h.pay(anna, "k3", in)
		require.ErrorIs(t, err, ErrSimulated)
		require.EqualValues(t, 1, told())
		require.Equal(t, []string{"payment 10.5 anna"}, h.kinds())
	})
}

func TestTestMethods(t *testing.T) {
	onEach(t, func(t *testing.T, h *harness) {
		h.slow = 0
		for method, want := range map[string]error{
			MethodDeclined: ErrDeclined, MethodUnavailable: ErrUnavailable, MethodError: ErrSimulated,
		} {
			in := payment
			in.Method = method
			_, err := h.pay(anna, method, in)
			require.ErrorIs(t, err, want)
		}
		for _, method := range []string{"pm_crash", "pm_hang", "pm_stuck", "pm_commit", "pm_rollback", "", "pm_other"} {
			in := payment
			in.Method = method
			_, err := h.pay(anna, "bad-"+method, in)
			require.ErrorContains(t, err, "method")
		}
		require.Empty(t, h.kinds())
		in := payment
		in.Method = MethodSlow
		_, err := h.pay(anna, MethodSlow, in)
		require.NoError(t, err)

		_, err = h.pay(anna, MethodUnavailable, payment) // freed: NotApplied was declared
		require.NoError(t, err)
	})
}

// A token may hold a subject that nobody can type, and a reference cannot.
func TestPayoutOfAnySeller(t *testing.T) {
	onEach(t, func(t *testing.T, h *harness) {
		in := PayoutInput{Amount: "1.00", Currency: "EUR", Method: MethodOK}
		for _, subject := range []string{"seller-1", "\u00a0x", " x", "a\nb", "x\u200dy", strings.Repeat("é", 127)} {
			require.NoError(t, h.attempt(park, core.Principal{Issuer: anna.Issuer, Subject: subject}, "payout", func(ctx context.Context) error {
				_, err := h.Payout(ctx, core.Principal{Issuer: anna.Issuer, Subject: subject}, in)
				return err
			}), "%q", subject)
		}
		require.Len(t, h.kinds(), 2*6, "the provider's and ours")
	})
}

func TestSlowEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, New(nil, nil, false).strike(ctx, MethodSlow), ErrInterrupted)
}

// CONTRACT D-1
func TestSecondLine(t *testing.T) {
	onEach(t, func(t *testing.T, h *harness) {
		first, err := h.pay(anna, "k1", payment)
		require.NoError(t, err)
		// The record is lost, as after its tombstone: the rows still know the operation.
		require.NoError(t, h.db.Exec("DELETE FROM idempotency_record").Error)
		again, err := h.pay(anna, "k1", payment)
		require.NoError(t, err)
		require.Equal(t, first.ID, again.ID)
		require.Equal(t, []string{"payment 10.5 anna"}, h.kinds())

		credit := func() (after *Balance) {
			require.NoError(t, h.attempt(rollback, anna, "k2", func(ctx context.Context) (err error) {
				after, err = h.Credit(ctx, anna, MovementInput{"1.00"})
				return err
			}))
			return after
		}
		require.Equal(t, "1.00", credit().Balance)
		require.NoError(t, h.db.Exec("DELETE FROM idempotency_record").Error)
		require.Equal(t, "1.00", credit().Balance)
	})
}

func TestOrders(t *testing.T) {
	onEach(t, func(t *testing.T, h *harness) {
		at := func(p core.Principal, key string, in OrderInput) (order *Order, err error) {
			err = h.attempt(rollback, p, key, func(ctx context.Context) error {
				order, err = h.PlaceOrder(ctx, p, in)
				return err
			})
			return order, err
		}
		cancel := func(p core.Principal, key, id string) (order *Order, err error) {
			err = h.attempt(rollback, p, key, func(ctx context.Context) error {
				order, err = h.CancelOrder(ctx, p, id)
				return err
			})
			return order, err
		}
		pieces := func(sku string) int64 {
			var row stock
			require.NoError(t, h.db.Take(&row, "sku = ?", sku).Error)
			return row.Pieces
		}
		two := OrderInput{CustomerID: "bert", Items: []Item{{"b", 2, "1.00"}, {"a", 1, "2"}, {"b", 3, "1.00"}}}

		order, err := at(anna, "k1", two)
		require.NoError(t, err)
		require.Equal(t, int64(999_995), pieces("b"))
		require.Equal(t, int64(999_999), pieces("a"))
		found, err := h.Order(t.Context(), anna, order.ID)
		require.NoError(t, err)
		require.Equal(t, two.Items, found.Items)
		_, err = h.Order(t.Context(), bert, order.ID) // ordered by anna, whatever it says
		require.ErrorIs(t, err, ErrNotFound)

		forBert, err := at(seller, "k1", two)
		require.NoError(t, err)
		_, err = h.Order(t.Context(), bert, forBert.ID)
		require.NoError(t, err)

		_, err = cancel(bert, "c1", order.ID)
		require.ErrorIs(t, err, ErrNotFound)
		cancelled, err := cancel(anna, "c1", order.ID)
		require.NoError(t, err)
		require.Equal(t, "cancelled", cancelled.Status)
		require.Equal(t, int64(999_995), pieces("b")) // bert's 5 are out
		_, err = cancel(anna, "c2", order.ID)
		require.ErrorIs(t, err, ErrAlreadyCancelled)
		require.Equal(t, int64(999_995), pieces("b"))

		tooMany := OrderInput{CustomerID: "anna", Items: []Item{{"a", 1, "1"}, {"c", 1_000_001, "1"}}}
		_, err = at(anna, "k2", tooMany)
		require.ErrorIs(t, err, ErrOutOfStock)
		require.Equal(t, int64(999_999), pieces("a")) // undone
		_, err = at(anna, "k3", OrderInput{CustomerID: "anna", Items: []Item{{"sold-out", 1, "1"}}})
		require.ErrorIs(t, err, ErrOutOfStock)

		for _, in := range []OrderInput{
			{}, {CustomerID: "a"}, {CustomerID: "a", Items: make([]Item, 101)}, {CustomerID: "a", Items: []Item{{"", 1, "1"}}},
			{CustomerID: "a", Items: []Item{{"a", 0, "1"}}}, {CustomerID: "a", Items: []Item{{"a", -1, "1"}}},
			{CustomerID: "a", Items: []Item{{"a", 1, "x"}}}, {CustomerID: "", Items: []Item{{"a", 1, "1"}}},
			{CustomerID: "a", Items: []Item{{"a\x00", 1, "1"}}},
		} {
			var invalid *InvalidError
			require.ErrorAs(t, in.check(), &invalid, "%+v", in)
		}
	})
}

func TestBalanceIsNeverNegative(t *testing.T) {
	onEach(t, func(t *testing.T, h *harness) {
		require.NoError(t, h.attempt(rollback, anna, "credit", func(ctx context.Context) error {
			_, err := h.Credit(ctx, anna, MovementInput{"10"})
			return err
		}))
		var charged atomic.Int64
		var group sync.WaitGroup
		for i := range 12 {
			group.Go(func() {
				err := h.attempt(rollback, anna, fmt.Sprintf("charge-%d", i), func(ctx context.Context) error {
					_, err := h.Charge(ctx, anna, MovementInput{"1.50"})
					return err
				})
				if err == nil {
					charged.Add(1)
				}
			})
		}
		group.Wait()
		require.Equal(t, int64(6), charged.Load())
		left, err := h.Balance(t.Context(), anna)
		require.NoError(t, err)
		require.Equal(t, "1.00", left.Balance)
		require.Len(t, h.kinds(), 7)
		empty, err := h.Balance(t.Context(), bert)
		require.NoError(t, err)
		require.Equal(t, "0.00", empty.Balance)
	})
}

func TestRename(t *testing.T) {
	onEach(t, func(t *testing.T, h *harness) {
		for _, name := range []string{"Anna", "Anna Maria"} {
			renamed, err := h.Rename(t.Context(), anna, ProfileInput{name})
			require.NoError(t, err)
			require.Equal(t, name, renamed.Name)
		}
		var row profile
		require.NoError(t, h.db.Take(&row).Error)
		require.Equal(t, "Anna Maria", row.Name)
		_, err := h.Rename(t.Context(), anna, ProfileInput{})
		require.ErrorContains(t, err, "name")
	})
}

// CONTRACT D-2
func TestMoneyTablesPassTheAudit(t *testing.T) {
	onEach(t, func(t *testing.T, h *harness) {
		require.NoError(t, gormstore.Audit(t.Context(), h.db, MoneyModels()...))
	})
}
