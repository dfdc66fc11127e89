package main

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/examples/internal/web"
)

// handlers are thin: they read a body, call the shop, and write its answer. They do not care that each command is applied
// once: the guards and the interceptor do.
type handlers struct {
	shop *shop.Shop
}

// caller returns the verified principal. It uses the request's context, never the *gin.Context itself.
func caller(c *gin.Context) authctx.Principal {
	p, _ := authctx.FromContext(c.Request.Context())
	return p
}

func (h handlers) placeOrder(c *gin.Context) {
	var in shop.OrderInput
	if err := web.Decode(c.Request, &in); err != nil {
		refuse(c, err)
		return
	}
	order, err := h.shop.PlaceOrder(c.Request.Context(), caller(c), in)
	if err != nil {
		refuse(c, err)
		return
	}
	c.Header("Location", "/v1/orders/"+order.ID)
	c.JSON(http.StatusCreated, order)
}

func (h handlers) order(c *gin.Context) {
	order, err := h.shop.Order(c.Request.Context(), caller(c), c.Param("id"))
	if err != nil {
		refuse(c, err)
		return
	}
	c.JSON(http.StatusOK, order)
}

func (h handlers) cancelOrder(c *gin.Context) {
	order, err := h.shop.CancelOrder(c.Request.Context(), caller(c), c.Param("id"))
	if err != nil {
		refuse(c, err)
		return
	}
	c.JSON(http.StatusOK, order)
}

func (h handlers) pay(c *gin.Context) {
	var in shop.PaymentInput
	if err := web.Decode(c.Request, &in); err != nil {
		refuse(c, err)
		return
	}
	payment, err := h.shop.Pay(c.Request.Context(), caller(c), in)
	if err != nil {
		refuse(c, err)
		return
	}
	c.Header("Location", "/v1/payments/"+payment.ID)
	c.JSON(http.StatusCreated, payment)
}

func (h handlers) payment(c *gin.Context) {
	payment, err := h.shop.Payment(c.Request.Context(), caller(c), c.Param("id"))
	if err != nil {
		refuse(c, err)
		return
	}
	c.JSON(http.StatusOK, payment)
}

func (h handlers) payments(c *gin.Context) {
	payments, err := h.shop.Payments(c.Request.Context(), caller(c))
	if err != nil {
		refuse(c, err)
		return
	}
	c.JSON(http.StatusOK, payments)
}

func (h handlers) refund(c *gin.Context) {
	var in shop.RefundInput
	if err := web.Decode(c.Request, &in); err != nil {
		refuse(c, err)
		return
	}
	refund, err := h.shop.Refund(c.Request.Context(), caller(c), c.Param("id"), in)
	if err != nil {
		refuse(c, err)
		return
	}
	c.JSON(http.StatusCreated, refund)
}

func (h handlers) payout(c *gin.Context) {
	var in shop.PayoutInput
	if err := web.Decode(c.Request, &in); err != nil {
		refuse(c, err)
		return
	}
	payout, err := h.shop.Payout(c.Request.Context(), caller(c), in)
	if err != nil {
		refuse(c, err)
		return
	}
	c.JSON(http.StatusCreated, payout)
}

func (h handlers) balance(c *gin.Context) {
	balance, err := h.shop.Balance(c.Request.Context(), caller(c))
	if err != nil {
		refuse(c, err)
		return
	}
	c.JSON(http.StatusOK, balance)
}

func (h handlers) charge(c *gin.Context) {
	var in shop.MovementInput
	if err := web.Decode(c.Request, &in); err != nil {
		refuse(c, err)
		return
	}
	balance, err := h.shop.Charge(c.Request.Context(), caller(c), in)
	if err != nil {
		refuse(c, err)
		return
	}
	c.JSON(http.StatusCreated, balance)
}

func (h handlers) credit(c *gin.Context) {
	var in shop.MovementInput
	if err := web.Decode(c.Request, &in); err != nil {
		refuse(c, err)
		return
	}
	balance, err := h.shop.Credit(c.Request.Context(), caller(c), in)
	if err != nil {
		refuse(c, err)
		return
	}
	c.JSON(http.StatusCreated, balance)
}

func (h handlers) rename(c *gin.Context) {
	var in shop.ProfileInput
	if err := web.Decode(c.Request, &in); err != nil {
		refuse(c, err)
		return
	}
	profile, err := h.shop.Rename(c.Request.Context(), caller(c), in)
	if err != nil {
		refuse(c, err)
		return
	}
	c.JSON(http.StatusOK, profile)
}

func (h handlers) ledger(c *gin.Context) {
	lines, err := h.shop.Ledger(c.Request.Context())
	if err != nil {
		refuse(c, err)
		return
	}
	c.JSON(http.StatusOK, lines)
}
