package contracttest_test

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/ginidem"
)

// onGin serves the bank with Gin.
func onGin(b *bank) http.Handler { return onGinBehind(b, guards(b)...) }

func guards(b *bank) []gin.HandlerFunc {
	return []gin.HandlerFunc{ginidem.JWTGuard(b.verifier), ginidem.Idempotent(b.idem)}
}

func onGinBehind(b *bank, guards ...gin.HandlerFunc) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	answer := func(c *gin.Context, done payment, err error) {
		if err != nil {
			status, body := statusOf(err)
			c.AbortWithStatusJSON(status, body)
			return
		}
		c.Header("Location", "/v1/payments/"+done.ID)
		c.Header("Link", "</v1/payments>; rel=collection")
		c.JSON(http.StatusCreated, done)
	}
	pay := func(c *gin.Context) {
		var in payment
		if c.ShouldBindJSON(&in) != nil {
			answer(c, in, errInvalid)
			return
		}
		done, err := b.pay(c.Request.Context(), in)
		answer(c, done, err)
	}
	v1 := r.Group("/v1", guards...)
	v1.POST("/accounts/:id/payments", pay)
	v1.PUT("/accounts/:id/payments", pay)
	v1.POST("/transfers", pay)
	v1.PUT("/receipts", func(c *gin.Context) {
		done, err := b.upload(c.Request)
		answer(c, done, err)
	})
	v1.GET("/operation", ginidem.Operations(b.idem, operations.Own))
	v1.GET("/operations/:id", ginidem.Operations(b.idem, operations.Show))
	return r
}
