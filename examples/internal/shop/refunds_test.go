package shop

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

func (h *harness) refund(p core.Principal, key, id string, in RefundInput) (refund *Refund, err error) {
	err = h.attempt(resume, p, key, func(ctx context.Context) error {
		refund, err = h.Refund(ctx, p, id, in)
		return err
	})
	return refund, err
}

// left is what can still be refunded of a payment.
func (h *harness) left(id string) int64 {
	var row Payment
	require.NoError(h.t, h.db.Take(&row, "id = ?", id).Error)
	return row.Cents - row.RefundedCents
}

func TestRefund(t *testing.T) {
	onEach(t, func(t *testing.T, h *harness) {
		paid, err := h.pay(anna, "k1", payment)
		require.NoError(t, err)
		stranger := seller
		stranger.Tenant = "elsewhere"
		for i, p := range []core.Principal{bert, stranger} {
			_, err = h.refund(p, fmt.Sprint("other-", i), paid.ID, RefundInput{Amount: "1"})
			require.ErrorIs(t, err, ErrNotFound)
		}
		_, err = h.refund(anna, "nowhere", "pay_?", RefundInput{Amount: "1"})
		require.ErrorIs(t, err, ErrNotFound)

		refund, err := h.refund(anna, "r1", paid.ID, RefundInput{Amount: "4"})
		require.NoError(t, err)
		require.Equal(t, []string{refundDone, "4", "EUR", paid.ID},
			[]string{refund.Status, refund.Amount, refund.Currency, refund.PaymentID})
		_, err = h.refund(seller, "r1", paid.ID, RefundInput{Amount: "6.5"})
		require.NoError(t, err)
		_, err = h.refund(anna, "r2", paid.ID, RefundInput{Amount: "0.01"})
		require.ErrorIs(t, err, ErrRefundTooHigh)
		_, err = h.refund(anna, "r2", paid.ID, RefundInput{Amount: "0.01"})
		require.ErrorIs(t, err, core.ErrAborted) // recorded
		require.Equal(t, []string{"payment 10.5 anna", "refund 4 anna", "refund 6.5 sam", "provider 4 anna",
			"provider 6.5 sam"}, h.kinds())
	})
}

// CONTRACT D-1
func TestSecondLineOfRefunds(t *testing.T) {
	onEach(t, func(t *testing.T, h *harness) {
		paid, err := h.pay(anna, "k1", payment)
		require.NoError(t, err)
		// Each is taken again with its record lost, as after its tombstone.
		for method, want := range map[string]error{MethodOK: nil, MethodDeclined: ErrDeclined} {
			for range 2 {
				require.NoError(t, h.db.Exec("DELETE FROM idempotency_step").Error)
				require.NoError(t, h.db.Exec("DELETE FROM idempotency_record").Error)
				_, err := h.refund(anna, method, paid.ID, RefundInput{"4", method})
				require.ErrorIs(t, err, want)
			}
		}
		require.Equal(t, int64(650), h.left(paid.ID))
		require.Equal(t, []string{"payment 10.5 anna", "refund 4 anna", "provider 4 anna"}, h.kinds())
	})
}
