package main

import (
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/gormstore"
)

type handlers struct{ wallets walletService }

// login stands for the app's log-in: it asks for no password.
func (h handlers) login(c *gin.Context) {
	var in struct {
		User uint `json:"user" binding:"required"`
	}
	if err := c.ShouldBindJSON(&in); err != nil {
		c.JSON(http.StatusBadRequest, gin.H{"error": "user is missing"})
		return
	}
	token, err := newToken(in.User)
	if err != nil {
		fail(c, err)
		return
	}
	c.JSON(http.StatusOK, gin.H{"token": token})
}

func (h handlers) open(c *gin.Context) {
	w, err := h.wallets.Open(c.Request.Context(), c.GetUint("user_id"))
	if err != nil {
		fail(c, err)
		return
	}
	c.JSON(http.StatusOK, w)
}

func (h handlers) wallet(c *gin.Context) {
	w, err := h.wallets.Find(c.Request.Context(), c.GetUint("user_id"))
	if err != nil {
		fail(c, err)
		return
	}
	c.JSON(http.StatusOK, w)
}

func (h handlers) transfer(c *gin.Context) {
	var in struct {
		To     uint  `json:"to" binding:"required"`
		Amount int64 `json:"amount" binding:"required,gt=0"`
	}
	if err := c.ShouldBindJSON(&in); err != nil {
		c.JSON(http.StatusBadRequest, gin.H{"error": "to and amount are needed"})
		return
	}
	t, err := h.wallets.Transfer(c.Request.Context(), c.GetUint("user_id"), in.To, in.Amount)
	if err != nil {
		fail(c, err)
		return
	}
	c.JSON(http.StatusCreated, t)
}

func fail(c *gin.Context, err error) {
	switch {
	case errors.Is(err, errNoWallet):
		c.JSON(http.StatusNotFound, gin.H{"error": err.Error()})
	case errors.Is(err, errNoMoney), errors.Is(err, gormstore.ErrOtherOperation):
		c.JSON(http.StatusConflict, gin.H{"error": err.Error()})
	default:
		_ = c.Error(err)
		c.JSON(http.StatusInternalServerError, gin.H{"error": "internal error"})
	}
}
