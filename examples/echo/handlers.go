package main

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/examples/internal/web"
)

// handlers are thin: they read a body, call the shop, and write its answer. They do not care that each command is applied
// once: the guards and the interceptor do.
type handlers struct {
	shop *shop.Shop
}

// caller returns the verified principal.
func caller(c echo.Context) authctx.Principal {
	p, _ := authctx.FromContext(c.Request().Context())
	return p
}

func (h handlers) placeOrder(c echo.Context) error {
	var in shop.OrderInput
	if err := web.Decode(c.Request(), &in); err != nil {
		return refuse(err)
	}
	order, err := h.shop.PlaceOrder(c.Request().Context(), caller(c), in)
	if err != nil {
		return refuse(err)
	}
	c.Response().Header().Set(echo.HeaderLocation, "/v1/orders/"+order.ID)
	return c.JSON(http.StatusCreated, order)
}

func (h handlers) order(c echo.Context) error {
	order, err := h.shop.Order(c.Request().Context(), caller(c), c.Param("id"))
	if err != nil {
		return refuse(err)
	}
	return c.JSON(http.StatusOK, order)
}

func (h handlers) cancelOrder(c echo.Context) error {
	order, err := h.shop.CancelOrder(c.Request().Context(), caller(c), c.Param("id"))
	if err != nil {
		return refuse(err)
	}
	return c.JSON(http.StatusOK, order)
}

func (h handlers) pay(c echo.Context) error {
	var in shop.PaymentInput
	if err := web.Decode(c.Request(), &in); err != nil {
		return refuse(err)
	}
	payment, err := h.shop.Pay(c.Request().Context(), caller(c), in)
	if err != nil {
		return refuse(err)
	}
	c.Response().Header().Set(echo.HeaderLocation, "/v1/payments/"+payment.ID)
	return c.JSON(http.StatusCreated, payment)
}

func (h handlers) payment(c echo.Context) error {
	payment, err := h.shop.Payment(c.Request().Context(), caller(c), c.Param("id"))
	if err != nil {
		return refuse(err)
	}
	return c.JSON(http.StatusOK, payment)
}

func (h handlers) payments(c echo.Context) error {
	payments, err := h.shop.Payments(c.Request().Context(), caller(c))
	if err != nil {
		return refuse(err)
	}
	return c.JSON(http.StatusOK, payments)
}

func (h handlers) refund(c echo.Context) error {
	var in shop.RefundInput
	if err := web.Decode(c.Request(), &in); err != nil {
		return refuse(err)
	}
	refund, err := h.shop.Refund(c.Request().Context(), caller(c), c.Param("id"), in)
	if err != nil {
		return refuse(err)
	}
	return c.JSON(http.StatusCreated, refund)
}

func (h handlers) payout(c echo.Context) error {
	var in shop.PayoutInput
	if err := web.Decode(c.Request(), &in); err != nil {
		return refuse(err)
	}
	payout, err := h.shop.Payout(c.Request().Context(), caller(c), in)
	if err != nil {
		return refuse(err)
	}
	return c.JSON(http.StatusCreated, payout)
}

func (h handlers) balance(c echo.Context) error {
	balance, err := h.shop.Balance(c.Request().Context(), caller(c))
	if err != nil {
		return refuse(err)
	}
	return c.JSON(http.StatusOK, balance)
}

func (h handlers) charge(c echo.Context) error {
	var in shop.MovementInput
	if err := web.Decode(c.Request(), &in); err != nil {
		return refuse(err)
	}
	balance, err := h.shop.Charge(c.Request().Context(), caller(c), in)
	if err != nil {
		return refuse(err)
	}
	return c.JSON(http.StatusCreated, balance)
}

func (h handlers) credit(c echo.Context) error {
	var in shop.MovementInput
	if err := web.Decode(c.Request(), &in); err != nil {
		return refuse(err)
	}
	balance, err := h.shop.Credit(c.Request().Context(), caller(c), in)
	if err != nil {
		return refuse(err)
	}
	return c.JSON(http.StatusCreated, balance)
}

func (h handlers) rename(c echo.Context) error {
	var in shop.ProfileInput
	if err := web.Decode(c.Request(), &in); err != nil {
		return refuse(err)
	}
	profile, err := h.shop.Rename(c.Request().Context(), caller(c), in)
	if err != nil {
		return refuse(err)
	}
	return c.JSON(http.StatusOK, profile)
}

func (h handlers) ledger(c echo.Context) error {
	lines, err := h.shop.Ledger(c.Request().Context())
	if err != nil {
		return refuse(err)
	}
	return c.JSON(http.StatusOK, lines)
}
